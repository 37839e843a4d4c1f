"""Foreign picture files, and what is left of them for the engine."""

import io
import re
import resource
import signal
import time
from pathlib import Path

import pytest
from PIL import Image as Pillow

from gpu_worker.errors import RequestFault
from gpu_worker.jpeg_scans import scans_of
from gpu_worker.picture_files import (
    LONGER_SIDE,
    LONGER_SIDE_OF_LOW_DETAIL,
    MAX_PIXELS,
    MAX_RATIO,
    MAX_SCANS,
    MAX_SECONDS,
    MAX_TOTAL_PIXELS,
    Size,
    as_png,
    fitted,
)
from gpu_worker.picture_intake import PictureIntake
from ipc.messages import Image, RejectCode
from tests.gpu_worker.seeing import image
from tests.picture_files import DAMAGED, GOOD, HOSTILE, plain, saved


def shown(data: bytes, canvas: Size | None = None) -> Pillow.Image:
    """What the engine would see; it must be as plain a PNG as there is."""
    file = as_png(image(data), canvas)
    assert file.startswith(b"\x89PNG\r\n\x1a\n")
    assert file[28] == 0, "interlaced"
    chunks = [name for name in (b"tEXt", b"zTXt", b"iTXt", b"eXIf", b"iCCP", b"tRNS", b"acTL", b"gAMA") if name in file]
    assert not chunks
    picture = Pillow.open(io.BytesIO(file))
    assert (picture.format, picture.mode) == ("PNG", "RGB")
    picture.load()
    return picture


def colour_of(name: str) -> tuple[int, int, int]:
    return {"white": (255, 255, 255), "black": (0, 0, 0)}.get(name.rpartition(", ")[2], (255, 0, 0))


@pytest.mark.parametrize("name", GOOD)
def test_every_kind_is_read(name: str) -> None:
    picture = shown(GOOD[name]())
    pixel = picture.getpixel((picture.width // 2, picture.height // 2))
    assert isinstance(pixel, tuple)
    assert all(abs(one - other) <= 40 for one, other in zip(pixel, colour_of(name), strict=True)), pixel


@pytest.mark.parametrize("name", HOSTILE)
def test_every_hostile_file_is_refused_by_name_and_quickly(name: str) -> None:
    hostile = HOSTILE[name]()
    began_at = time.process_time()

    with pytest.raises(RequestFault) as caught:
        as_png(image(hostile))

    assert time.process_time() - began_at < 15
    assert caught.value.code is RejectCode.IMAGE_REFUSED
    assert caught.value.field == "messages[0].content[0].image_url"
    assert caught.value.field in str(caught.value)
    assert not re.search(r"\b0x", str(caught.value))
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_a_file_that_keeps_its_reader_busy_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_worker.picture_files.MAX_SECONDS", 0.05)

    with pytest.raises(RequestFault, match="seconds to decode"):
        as_png(image(HOSTILE["gif: a million notes"]()))


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_picture_that_can_be_read_becomes_a_whole_one(name: str) -> None:
    assert shown(DAMAGED[name]()).width >= 64


def test_scans_are_counted_up_to_the_end_of_the_picture() -> None:
    once, often = saved(plain(), "JPEG"), saved(plain(), "JPEG", progressive=True)
    assert scans_of(once, 40) == 1
    assert 5 <= scans_of(often, 40) <= 15
    assert scans_of(often + once * 50, 40) == scans_of(often, 40)
    assert scans_of(often, 2) == 3
    thumbnail = Pillow.Exif()
    thumbnail[0x010E] = (b"\xff\xda" * 500).decode("latin-1")
    assert scans_of(saved(plain(), "JPEG", exif=thumbnail), 40) == 1


def test_a_file_of_another_kind_is_refused_even_here() -> None:
    for kind in ("BMP", "TIFF", "ICO", "PPM", "PCX", "TGA"):
        with pytest.raises(RequestFault):
            as_png(image(saved(plain(), kind)))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photo_is_put_upright(orientation: int) -> None:
    upright = Pillow.new("RGB", (48, 64), "white")
    upright.paste((255, 0, 0), (0, 0, 24, 32))  # red in the upper left quarter
    # How the camera held it: what brings it back upright, backwards.
    back = {
        1: None,
        2: Pillow.Transpose.FLIP_LEFT_RIGHT,
        3: Pillow.Transpose.ROTATE_180,
        4: Pillow.Transpose.FLIP_TOP_BOTTOM,
        5: Pillow.Transpose.TRANSPOSE,
        6: Pillow.Transpose.ROTATE_90,
        7: Pillow.Transpose.TRANSVERSE,
        8: Pillow.Transpose.ROTATE_270,
    }[orientation]
    taken = upright if back is None else upright.transpose(back)
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    picture = shown(saved(taken, "JPEG", exif=exif, quality=95))
    assert picture.size == (48, 64)
    corner, opposite = picture.getpixel((6, 8)), picture.getpixel((42, 56))
    assert isinstance(corner, tuple)
    assert isinstance(opposite, tuple)
    assert corner[1] < 60 < 200 < opposite[1]


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_an_orientation_that_is_none_changes_nothing(orientation: int) -> None:
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    assert shown(saved(plain(size=(30, 60)), "JPEG", exif=exif)).size == (30, 60)


def test_large_pictures_are_scaled_down_and_small_ones_left() -> None:
    assert shown(saved(plain(size=(3000, 1000)), "PNG")).size == (LONGER_SIDE, LONGER_SIDE // 3)
    assert shown(saved(plain(size=(1000, 3000)), "JPEG")).size == (LONGER_SIDE // 3, LONGER_SIDE)
    assert shown(saved(plain(size=(3, 5)), "PNG")).size == (3, 5)
    low = as_png(image(saved(plain(size=(3000, 1500)), "WEBP"), is_low_detail=True))
    assert Pillow.open(io.BytesIO(low)).size == (LONGER_SIDE_OF_LOW_DETAIL, LONGER_SIDE_OF_LOW_DETAIL // 2)
    assert fitted(Size(4000, 40), is_low_detail=True) == Size(512, 5)


def test_a_picture_at_the_bound_is_read_in_bounded_memory() -> None:
    large = saved(plain(size=(8_000, 5_000)), "PNG")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert shown(large).size == (1536, 960)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600 << 10


def test_what_is_in_a_file_besides_its_pixels_does_not_come_out() -> None:
    exif = Pillow.Exif()
    exif[0x010E] = "a secret description"
    file = as_png(image(saved(plain(), "JPEG", exif=exif, comment=b"a secret comment", icc_profile=b"secret" * 20)))
    assert b"secret" not in file


def test_the_bounds_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    assert f"| pixels of an image | {MAX_PIXELS // 10**6} million |" in page
    assert f"| pixels of all images together | {MAX_TOTAL_PIXELS // 10**6} million |" in page
    assert f"| an image's longer side | {MAX_RATIO} times the shorter one |" in page
    assert f"| scans of a progressive JPEG | {MAX_SCANS} |" in page
    assert f"| time to decode an image | {MAX_SECONDS:.0f} s of one processor |" in page
    assert f"{LONGER_SIDE:,} pixels long ({LONGER_SIDE_OF_LOW_DETAIL} with `low`)" in page


def test_all_pictures_of_a_request_have_a_common_bound() -> None:
    large = image(saved(plain(1, (8_000, 5_000), "1"), "PNG"))
    PictureIntake([large] * 4, wants_one_size=False)

    with pytest.raises(RequestFault) as caught:
        PictureIntake([large] * 5, wants_one_size=False)

    assert (caught.value.code, caught.value.field) == (RejectCode.IMAGE_REFUSED, "messages")


def test_a_bad_picture_is_found_before_the_good_ones_are_read() -> None:
    def numbered(data: bytes, number: int) -> Image:
        return image(data, number)

    images = [numbered(saved(plain(), "PNG"), 0), numbered(HOSTILE["png: head only"](), 1)]

    with pytest.raises(RequestFault) as caught:
        PictureIntake(images, wants_one_size=False)

    assert caught.value.field == "messages[0].content[1].image_url"


def test_pictures_that_must_be_of_one_size_get_it_in_white() -> None:
    images = [image(saved(plain(size=size), "PNG")) for size in ((100, 40), (30, 60))]
    intake = PictureIntake(images, wants_one_size=True)
    pictures = [Pillow.open(io.BytesIO(intake.decoded(one))) for one in images]
    assert {picture.size for picture in pictures} == {(100, 100)}
    assert pictures[1].getpixel((5, 5)) == (255, 0, 0)
    assert pictures[1].getpixel((90, 90)) == (255, 255, 255)
    alone = PictureIntake(images[:1], wants_one_size=True)
    assert Pillow.open(io.BytesIO(alone.decoded(images[0]))).size == (100, 40)
