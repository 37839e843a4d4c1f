"""How much memory a model will take, told from its folder. Called by the admission, before a load.

Blocks for a `stat` of each file and for reading one small file of JSON. What the folder does not tell counts as nothing: an estimate that
is too low costs an out-of-memory error that is answered as such; one that is too high would refuse a model that fits.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import TypeAlias

from ipc.messages import Device
from supervisor.memory_budget import MemoryNeed, estimate_need

_CONFIG_NAME = "genai_config.json"
_MAX_CONFIG_BYTES = 4 << 20
# A figure above this is no property of a model.
_MAX_FIGURE = 1 << 20
# Keys and values, in the type in which models of that device are exported: 16 bits on a GPU, 32 on the CPU.
_KV_BYTES = {Device.CUDA: 2 * 2, Device.CPU: 2 * 4}
# A model is loaded for more than the request that asked first; most conversations fit into this.
_USUAL_TOKENS = 2048
# What a process needs beside the GPU: the libraries of CUDA and the file that is being copied there.
_HOST_BYTES_OF_CUDA = 1 << 30

_Section: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFigures:
    """weights_bytes: all files of the folder. kv_elements: numbers in the keys of one token, 0 when unknown. context_length: or None.

    pool_tokens: of a paged model, whose cache is taken as a whole while it loads; None for others, and where its files leave it open.
    """

    weights_bytes: int
    kv_elements: int
    context_length: int | None
    pool_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class KeptRequests:
    """Whose keys and values stay in memory after their end: so many, in at most so many bytes."""

    slots: int
    max_bytes: int


NOTHING_KEPT = KeptRequests(0, 0)


def read_figures(folder: Path) -> ModelFigures:
    """Return the figures of a model folder. Never raises."""
    config = _read_config(folder / _CONFIG_NAME)
    model = _section(config, "model")
    decoder = _section(model, "decoder")
    shape = [_positive(decoder, name) or 0 for name in ("num_hidden_layers", "num_key_value_heads", "head_size")]
    return ModelFigures(
        weights_bytes=_size_of(folder),
        kv_elements=math.prod(shape),
        context_length=_positive(model, "context_length"),
        pool_tokens=_pool_tokens(_section(_section(config, "engine"), "dynamic_batching")),
    )


def _pool_tokens(batching: _Section) -> int | None:
    blocks, block_size = _positive(batching, "num_blocks"), _positive(batching, "block_size")
    return None if blocks is None or block_size is None else blocks * block_size


def device_need(
    figures: ModelFigures, device: Device, tokens: int, prefill_chunk: int, kept: KeptRequests = NOTHING_KEPT
) -> MemoryNeed:
    """Return what the model takes on the device it runs on.

    tokens: of the request that it is loaded for, prompt and answer. prefill_chunk: see `ipc.launch_spec`.
    kept: of finished requests, beside the one that runs.
    """
    length = _length(figures, tokens)
    request_bytes = length * figures.kv_elements * _KV_BYTES[device]
    # A pool holds what is kept as well.
    kept_bytes = 0 if figures.pool_tokens is not None else min(kept.slots * request_bytes, kept.max_bytes)
    return estimate_need(
        figures.weights_bytes,
        request_bytes + kept_bytes,
        min(prefill_chunk, length) if prefill_chunk > 0 else length,
    )


def _length(figures: ModelFigures, tokens: int) -> int:
    """How many tokens' keys and values there are at once, beside those of finished requests."""
    if figures.pool_tokens is not None:
        return figures.pool_tokens

    length = max(tokens, _USUAL_TOKENS)
    return length if figures.context_length is None else min(length, figures.context_length)


def host_need(
    figures: ModelFigures, device: Device, tokens: int, prefill_chunk: int, kept: KeptRequests = NOTHING_KEPT
) -> MemoryNeed:
    """Return what the model takes of main memory."""
    if device is Device.CUDA:
        return estimate_need(min(figures.weights_bytes, _HOST_BYTES_OF_CUDA), 0, 0)

    return device_need(figures, device, tokens, prefill_chunk, kept)


def _size_of(folder: Path) -> int:
    size = 0

    try:
        for path in folder.iterdir():
            status = path.stat()
            size += status.st_size if S_ISREG(status.st_mode) else 0
    except (OSError, ValueError):
        # A folder that changes or goes away is the worker's to complain of.
        return size

    return size


def _read_config(path: Path) -> _Section:
    try:
        with path.open("rb") as file:
            config = json.loads(file.read(_MAX_CONFIG_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}

    return config if isinstance(config, dict) else {}


def _section(parent: _Section, name: str) -> _Section:
    value = parent.get(name)
    return value if isinstance(value, dict) else {}


def _positive(section: _Section, name: str) -> int | None:
    value = section.get(name)
    is_figure = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_FIGURE
    return value if isinstance(value, int) and is_figure else None
