"""Which kinds of models take pictures, and how their prompts say where one is. Pure facts, by `model.type` of genai_config.json.

Read by `model_folder.py` (does this model see?) and by `prism.chat` (what is put where a picture is?). A kind that is not listed is taken
for one without sight: to guess a marker would give answers about nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFamily:
    """How a family of models marks the place of a picture (onnxruntime-genai 0.18).

    marker: what its processor looks for; `#` is the number of the picture, from 1 on.
    behind: what stands behind a marker where the messages are texts only.
    between: what must stand between two markers that would touch, since the processor would take them for one.
    takes_parts: its templates take a content that is a list, with {"type": "image"} where a picture is.
    beginnings: what the processor reacts to beyond the special tokens; where a client types it, it is cut apart.
    """

    marker: str
    behind: str = ""
    between: str = ""
    takes_parts: bool = True
    beginnings: frozenset[str] = frozenset()

    def markers(self, count: int) -> tuple[str, ...]:
        """Return the markers of so many pictures."""
        return tuple(self.marker.replace("#", str(number + 1)) for number in range(count))


_PHI = ImageFamily(marker="<|image_#|>", behind="\n", takes_parts=False, beginnings=frozenset({"<|image_", "<|audio_"}))
_GEMMA3 = ImageFamily(marker="<start_of_image>", beginnings=frozenset({"<start_of_image>", "<image_soft_token>"}))
_GEMMA4 = ImageFamily(marker="<|image|>", beginnings=frozenset({"<|image|>", "<|image>"}))
_QWEN = ImageFamily(
    marker="<|vision_start|><|image_pad|><|vision_end|>",
    beginnings=frozenset({"<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"}),
)
_MISTRAL = ImageFamily(marker="[IMG]", between="\n", beginnings=frozenset({"[IMG]", "[IMG_BREAK]", "[IMG_END]"}))

_FAMILIES: Mapping[str, ImageFamily] = MappingProxyType(
    {
        "phi3v": _PHI,
        "phi4mm": _PHI,
        "gemma3": _GEMMA3,
        "gemma4": _GEMMA4,
        "qwen2_5_vl": _QWEN,
        "qwen3_vl": _QWEN,
        "qwen3_5": _QWEN,
        "fara": _QWEN,
        "mistral3": _MISTRAL,
    }
)


def image_family(model_type: str | None) -> ImageFamily | None:
    """Return the family; None for a kind of model that takes no pictures, or is not known to."""
    return None if model_type is None else _FAMILIES.get(model_type)
