"""What genai_config.json tells about the keys and values of a model's sequences. Pure; called once, by `model_files.py`."""

import math
from dataclasses import dataclass

from gpu_worker.json_files import JsonObject, is_integer, section
from ipc.messages import Device

# Keys and values in the type in which models of that device are exported: 16 bits on a GPU, 32 on the CPU.
_NUMBER_BYTES = {Device.CUDA: 2, Device.CPU: 4}
_MAX_FIGURE = 1 << 20
# Models whose positions are scaled otherwise past this length: the engine computes everything anew there, so keys and values of a longer
# sequence do not fit a shorter one.
_LONGEST_ALIKE = {"phi3": 4096, "phimoe": 4096, "phi3small": 8192}
# The engine has no rewind for these types, and for models of several graphs (pictures, sound) one that spoils the next run.
_NEVER_REWOUND = frozenset({"whisper", "phi3v", "decoder-pipeline"})
_OTHER_GRAPHS = ("vision", "speech", "embedding", "encoder")


@dataclass(frozen=True, slots=True)
class KvFacts:
    """Of one model.

    numbers_per_token: in keys and values of all layers; 0 when the file does not tell.
    is_preallocated: memory for the whole length is taken when a sequence begins; else it grows with the sequence.
    can_rewind: a sequence can be continued from an earlier token. longest_kept: one that grew longer cannot; None for no such bound.
    """

    numbers_per_token: int
    is_preallocated: bool
    can_rewind: bool
    longest_kept: int | None

    def token_bytes(self, device: Device) -> int:
        """Return what one token takes."""
        return self.numbers_per_token * _NUMBER_BYTES[device]


def read_kv_facts(config: JsonObject) -> KvFacts:
    """Never raises: what cannot be read counts as not told."""
    model = section(config, "model")
    decoder = section(model, "decoder")
    kind = model.get("type")
    kind = kind if isinstance(kind, str) else ""
    shape = [_figure(decoder, name) for name in ("num_hidden_layers", "num_key_value_heads", "head_size")]

    return KvFacts(
        numbers_per_token=2 * math.prod(shape),
        is_preallocated=section(config, "search").get("past_present_share_buffer") is True,
        can_rewind=kind not in _NEVER_REWOUND and not any(name in model for name in _OTHER_GRAPHS),
        longest_kept=_LONGEST_ALIKE.get(kind),
    )


def _figure(decoder: JsonObject, name: str) -> int:
    value = decoder.get(name)
    return value if is_integer(value) and 0 < value <= _MAX_FIGURE else 0
