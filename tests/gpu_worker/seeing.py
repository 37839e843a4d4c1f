"""Pictures for tests: plain ones of one colour, and a request that shows them."""

import io
from collections.abc import Sequence

from PIL import Image as Pillow

from ipc.messages import Generate, Image, Sampling

MARKER = "<|vision_start|><|image_pad|><|vision_end|>"
HEAD = "<|im_start|>user\n"
FOOT = "<|im_end|>\n<|im_start|>assistant\n"


def png(colour: str, size: tuple[int, int] = (64, 64)) -> bytes:
    return saved(Pillow.new("RGB", size, colour), "PNG")


def saved(picture: Pillow.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def image(data: bytes, number: int = 0, *, is_low_detail: bool = False) -> Image:
    return Image(
        data=data, field=f"messages[0].content[{number}].image_url", marker=MARKER, is_low_detail=is_low_detail
    )


def shown(
    files: Sequence[bytes],
    *,
    text: str = "what?",
    pieces: Sequence[str] | None = None,
    number: int = 1,
    max_tokens: int = 80,
) -> Generate:
    """A request with these picture files; pieces: the prompt, else the markers and then the text."""
    return Generate(
        request_id=number,
        prompt=tuple(pieces) if pieces is not None else (HEAD + MARKER * len(files) + text + FOOT,),
        max_tokens=max_tokens,
        sampling=Sampling(temperature=0.0),
        images=tuple(image(data, place) for place, data in enumerate(files)),
    )
