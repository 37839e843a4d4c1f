"""Foreign picture files into plain PNG files: the home of Pillow in the worker, and the only way of a picture to the engine.

The engine's own decoder ends the process on a GIF and loops for ever on a JPEG that lacks its last byte, so it never sees what a client
sent. Called by `generation.py` for each picture; blocks for a fraction of a second, and for a few seconds on the largest. What a file says
besides its pixels (text, colour profiles, places where it was taken) goes no further than this file.
"""

import io
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

# The readers are imported by name: to find one by itself Pillow would import all that it has.
from PIL import GifImagePlugin, JpegImagePlugin, PngImagePlugin, UnidentifiedImageError, WebPImagePlugin
from PIL import Image as Pillow

from gpu_worker.errors import RequestFault
from gpu_worker.fault_text import cause_of
from gpu_worker.jpeg_scans import scans_of
from ipc.messages import Image, RejectCode

FORMATS = (
    PngImagePlugin.PngImageFile.format,
    JpegImagePlugin.JpegImageFile.format,
    GifImagePlugin.GifImageFile.format,
    WebPImagePlugin.WebPImageFile.format,
)

# 40 million pixels are a photo of a good camera, and 8K has fewer; read, they take 120 to 160 MB for a moment.
MAX_PIXELS = 40_000_000
# All pictures of a request together, so that reading them takes seconds and not a minute.
MAX_TOTAL_PIXELS = 160_000_000
# Processors scale down further by their own rules; a few of them cannot take a strip.
MAX_RATIO = 100
# Of a JPEG; the most elaborate encoders write about twenty.
MAX_SCANS = 40
# Of processor time for one picture, as far as a reader is Python: the largest honest one takes two. Some files keep a reader busy with a
# million notes before it comes to the first pixel.
MAX_SECONDS = 10.0
LONGER_SIDE = 1536
LONGER_SIDE_OF_LOW_DETAIL = 512

# Pillow's own bound, for what it reads before anybody can look at the size. It warns past it, and here warnings are errors.
Pillow.MAX_IMAGE_PIXELS = MAX_PIXELS

_ORIENTATION = 0x0112
_UPRIGHT = {
    2: Pillow.Transpose.FLIP_LEFT_RIGHT,
    3: Pillow.Transpose.ROTATE_180,
    4: Pillow.Transpose.FLIP_TOP_BOTTOM,
    5: Pillow.Transpose.TRANSPOSE,
    6: Pillow.Transpose.ROTATE_270,
    7: Pillow.Transpose.TRANSVERSE,
    8: Pillow.Transpose.ROTATE_90,
}
_WHITE = (255, 255, 255)


@dataclass(frozen=True, slots=True)
class Size:
    """Of a picture, in pixels."""

    width: int
    height: int


def measured(image: Image) -> Size:
    """Return how large a picture says it is, without reading its pixels. Raises RequestFault for one past a bound, or for no picture."""
    with _refusing(image), _in_time(), _opened(image) as picture:
        return Size(picture.width, picture.height)


def fitted(size: Size, *, is_low_detail: bool) -> Size:
    """Return the size to which a picture is scaled down; small ones stay as they are."""
    bound = LONGER_SIDE_OF_LOW_DETAIL if is_low_detail else LONGER_SIDE
    longer = max(size.width, size.height)

    if longer <= bound:
        return size

    return Size(*(max(1, round(side * bound / longer)) for side in (size.width, size.height)))


def as_png(image: Image, canvas: Size | None = None) -> bytes:
    """Return the picture as a plain PNG: upright, RGB, on white, scaled down, its first frame only.

    canvas: the size that the file must have; the picture stands in its upper left corner.
    Raises RequestFault for what is no whole picture.
    """
    with _refusing(image), _in_time(), _opened(image) as picture:
        size = fitted(Size(picture.width, picture.height), is_low_detail=image.is_low_detail)
        # A JPEG can be read at a fraction of its size, at a fraction of the time and memory.
        picture.draft(None, (size.width, size.height))
        picture.load()
        return _encoded(_upright(_scaled(_on_white(picture), size), _orientation(picture)), canvas)


@contextmanager
def _refusing(image: Image) -> Iterator[None]:
    try:
        yield
    except RequestFault:
        raise
    except _TooSlow as error:
        raise _refused(image, f"takes more than {MAX_SECONDS:.0f} seconds to decode") from error
    except UnidentifiedImageError as error:
        raise _refused(image, "is no picture, or a damaged one") from error
    except (Pillow.DecompressionBombError, Pillow.DecompressionBombWarning) as error:
        raise _refused(image, f"has more than {MAX_PIXELS} pixels") from error
    except (
        Exception
    ) as error:  # a foreign file can make a reader raise anything: SyntaxError, struct.error, MemoryError
        raise _refused(image, f"cannot be decoded: {cause_of(error)}") from error


class _TooSlow(Exception):
    """The processor time for a picture is used up."""


@contextmanager
def _in_time() -> Iterator[None]:
    """Raise _TooSlow in the block when it has had its time. Only in the main thread, which a worker's only one is."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    # And again each second, for a reader that takes the exception for a fault of the file.
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_SECONDS, 1.0)

    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _opened(image: Image) -> Iterator[Pillow.Image]:
    if image.data.startswith(b"\xff\xd8") and scans_of(image.data, MAX_SCANS) > MAX_SCANS:
        raise _refused(image, f"has more than {MAX_SCANS} scans")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Pillow.DecompressionBombWarning)

        with Pillow.open(io.BytesIO(image.data), formats=FORMATS) as picture:
            _check_size(image, picture)
            yield picture


def _check_size(image: Image, picture: Pillow.Image) -> None:
    width, height = picture.size

    if width < 1 or height < 1:
        raise _refused(image, "has no pixels")

    if width * height > MAX_PIXELS:
        raise _refused(image, f"has more than {MAX_PIXELS} pixels")

    if max(width, height) > MAX_RATIO * min(width, height):
        raise _refused(image, f"is a strip of {width}x{height} pixels: more than {MAX_RATIO} times as long as wide")


def _orientation(picture: Pillow.Image) -> int:
    try:
        found: object = picture.getexif().get(_ORIENTATION)
    except Exception:  # notes of a camera that cannot be read are no reason to refuse the picture
        return 1

    return found if isinstance(found, int) else 1


def _upright(picture: Pillow.Image, orientation: int) -> Pillow.Image:
    turn = _UPRIGHT.get(orientation)
    return picture if turn is None else picture.transpose(turn)


def _on_white(picture: Pillow.Image) -> Pillow.Image:
    """Return the picture as RGB, what is transparent in it white."""
    if picture.mode.startswith(("I", "F")):
        # 16 bits of grey; plain conversion would make everything but the darkest white.
        return picture.point(lambda value: value * (1 / 256)).convert("L").convert("RGB")

    if not picture.has_transparency_data:
        return picture.convert("RGB")

    seen = picture.convert("RGBA")
    ground = Pillow.new("RGB", seen.size, _WHITE)
    ground.paste(seen, mask=seen.getchannel("A"))
    return ground


def _scaled(picture: Pillow.Image, size: Size) -> Pillow.Image:
    if picture.size == (size.width, size.height):
        return picture

    return picture.resize((size.width, size.height), Pillow.Resampling.BICUBIC, reducing_gap=2.0)


def _encoded(picture: Pillow.Image, canvas: Size | None) -> bytes:
    if canvas is not None and picture.size != (canvas.width, canvas.height):
        ground = Pillow.new("RGB", (canvas.width, canvas.height), _WHITE)
        ground.paste(picture)
        picture = ground

    # Whatever hangs on the picture besides its pixels would be written along.
    picture.info.clear()
    file = io.BytesIO()
    picture.save(file, "PNG", compress_level=1)
    return file.getvalue()


def _refused(image: Image, what: str) -> RequestFault:
    return RequestFault(RejectCode.IMAGE_REFUSED, f"The image '{image.field}' {what}.", field=image.field)
