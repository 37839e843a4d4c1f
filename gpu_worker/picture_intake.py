"""The pictures of one request, decoded one after the other under a common bound. Called by `generation.py`, which looks in between
whether anybody still wants the answer. Blocks for some milliseconds when made, and per picture as `picture_files.py` says.
"""

from collections.abc import Sequence

from gpu_worker.errors import RequestFault
from gpu_worker.picture_files import MAX_TOTAL_PIXELS, Size, as_png, fitted, measured
from ipc.messages import Image, RejectCode


class PictureIntake:
    """Knows the sizes of all pictures before the first is read."""

    def __init__(self, images: Sequence[Image], *, wants_one_size: bool) -> None:
        """Raises RequestFault for a picture past a bound, and for pictures that are too many pixels together."""
        sizes = [measured(image) for image in images]
        total = sum(size.width * size.height for size in sizes)

        if total > MAX_TOTAL_PIXELS:
            raise RequestFault(
                RejectCode.IMAGE_REFUSED,
                f"The images have {total} pixels together, and {MAX_TOTAL_PIXELS} is the most that a request may have.",
                field="messages",
            )

        self._canvas = _common(images, sizes) if wants_one_size and len(images) > 1 else None

    def decoded(self, image: Image) -> bytes:
        """Return one picture as a PNG file that the engine can be given. Raises RequestFault."""
        return as_png(image, self._canvas)


def _common(images: Sequence[Image], sizes: Sequence[Size]) -> Size:
    """A size that all pictures fit in, upright ones and those that are still to be turned."""
    targets = [fitted(size, is_low_detail=image.is_low_detail) for image, size in zip(images, sizes, strict=True)]
    side = max(max(target.width, target.height) for target in targets)
    return Size(side, side)
