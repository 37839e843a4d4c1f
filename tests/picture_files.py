"""Picture files for tests: one of every kind that is taken, and files that are none although they begin like one."""

import io
import struct
import zlib
from collections.abc import Callable

from PIL import Image

RED, BLUE, CLEAR = (255, 0, 0), (0, 0, 255), (0, 0, 0, 0)
SIDE = 64


def plain(
    colour: tuple[int, ...] | str | int = RED, size: tuple[int, int] = (SIDE, SIDE), mode: str = "RGB"
) -> Image.Image:
    return Image.new(mode, size, colour)


def saved(picture: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def raw_png(
    width: int,
    height: int,
    rows: bytes,
    *,
    depth: int = 8,
    kind: int = 2,
    is_interlaced: bool = False,
    more: bytes = b"",
) -> bytes:
    """A PNG by its numbers; rows: the bytes of all lines, each behind its filter's number."""
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, int(is_interlaced))
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            more,
            chunk(b"IDAT", zlib.compress(rows)),
            chunk(b"IEND", b""),
        )
    )


def _lines(pixel: bytes, side: int = SIDE) -> bytes:
    return (b"\0" + pixel * side) * side


def _interlaced() -> bytes:
    # The seven passes of Adam7: where each begins, and how far apart its pixels are.
    passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
    rows = b"".join(
        b"".join(b"\0" + bytes(RED) * len(range(x, SIDE, dx)) for _ in range(y, SIDE, dy)) for x, y, dx, dy in passes
    )
    return raw_png(SIDE, SIDE, rows, is_interlaced=True)


def _rotated_jpeg() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return saved(plain(), "JPEG", exif=exif)


def _moving(kind: str, **options: object) -> bytes:
    return saved(plain(), kind, save_all=True, append_images=[plain(BLUE), plain("white")], duration=50, **options)


def _clear_corner(mode: str = "RGBA") -> Image.Image:
    picture = Image.new("RGBA", (SIDE, SIDE), RED)
    picture.paste(CLEAR, (0, 0, 2, 2))
    return picture.convert(mode)


# Each shows red, but for the ones that are named otherwise.
GOOD: dict[str, Callable[[], bytes]] = {
    "png": lambda: saved(plain(), "PNG"),
    "png of one bit, white": lambda: saved(plain(1, mode="1"), "PNG"),
    "png of 8 bits of grey, white": lambda: saved(plain(255, mode="L"), "PNG"),
    "png of 16 bits of grey, black": lambda: raw_png(SIDE, SIDE, _lines(b"\x20\x00"), depth=16, kind=0),
    "png of 16 bits of grey, white": lambda: raw_png(SIDE, SIDE, _lines(b"\xff\xff"), depth=16, kind=0),
    "png of 16 bits": lambda: raw_png(SIDE, SIDE, _lines(b"\xff\xff\x00\x00\x00\x00"), depth=16),
    "png of 16 bits with alpha": lambda: raw_png(
        SIDE, SIDE, _lines(b"\xff\xff" + b"\0" * 4 + b"\xff\xff"), depth=16, kind=6
    ),
    "png with a palette": lambda: saved(plain().quantize(4), "PNG"),
    "png with a palette and a clear colour, white": lambda: saved(plain(0, mode="P"), "PNG", transparency=0),
    "png with alpha": lambda: saved(_clear_corner(), "PNG"),
    "png of hidden blue, white": lambda: saved(plain((0, 0, 255, 0), mode="RGBA"), "PNG"),
    "png of grey with alpha, white": lambda: saved(plain((0, 0), mode="LA"), "PNG"),
    "png with a clear colour, white": lambda: raw_png(
        SIDE, SIDE, _lines(bytes(BLUE)), more=chunk(b"tRNS", b"\0\0\0\0\0\xff")
    ),
    "png, interlaced": _interlaced,
    "png that moves": lambda: _moving("PNG"),
    "png with a turn in its notes": lambda: saved(plain(), "PNG", exif=_exif(8)),
    "jpeg": lambda: saved(plain(), "JPEG"),
    "jpeg, progressive": lambda: saved(plain(), "JPEG", progressive=True),
    "jpeg of grey, black": lambda: saved(plain(10, mode="L"), "JPEG"),
    "jpeg of four inks": lambda: saved(plain().convert("CMYK"), "JPEG"),
    "jpeg, turned": _rotated_jpeg,
    "jpeg with broken notes": lambda: saved(plain(), "JPEG", exif=b"Exif\0\0MM\0*\0\0\xff\xff"),
    "jpeg with bytes behind it": lambda: saved(plain(), "JPEG") + b"and more" * 100,
    "jpeg of many pixels": lambda: saved(plain(size=(4000, 3000)), "JPEG"),
    "gif": lambda: saved(plain(), "GIF"),
    "gif that moves": lambda: _moving("GIF"),
    "gif with a clear colour, white": lambda: saved(plain(0, mode="P"), "GIF", transparency=0),
    "webp": lambda: saved(plain(), "WEBP"),
    "webp, lossless": lambda: saved(plain(), "WEBP", lossless=True),
    "webp with alpha": lambda: saved(_clear_corner(), "WEBP", lossless=True),
    "webp that moves": lambda: _moving("WEBP"),
}


def _exif(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif.tobytes()


def _noise(kind: str, **options: object) -> bytes:
    return saved(Image.effect_noise((SIDE, SIDE), 90).convert("RGB"), kind, **options)


def _webp_of_size(width: int, height: int) -> bytes:
    """A lossless WebP that says it is as large as that; its pixels are missing."""
    bits = (width - 1) | (height - 1) << 14
    body = b"VP8L" + struct.pack("<I", 10) + b"\x2f" + struct.pack("<I", bits) + b"\0" * 5
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def _huge_canvas_webp() -> bytes:
    body = b"VP8X" + struct.pack("<I", 10) + b"\x02\0\0\0" + b"\xff\xff\xff" * 2
    body += b"ANIM" + struct.pack("<I", 6) + b"\0" * 6
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def _gif_of_size(width: int, height: int) -> bytes:
    good = bytearray(saved(plain(), "GIF"))
    good[6:10] = struct.pack("<HH", width, height)
    return bytes(good)


def _gif_with_far_frame() -> bytes:
    good = bytearray(saved(plain(), "GIF"))
    at = good.index(b"\x2c")
    good[at + 1 : at + 9] = struct.pack("<HHHH", 60000, 60000, 5000, 5000)
    return bytes(good)


def _jpeg_of_size(width: int, height: int) -> bytes:
    good = bytearray(saved(plain(), "JPEG"))
    at = good.index(b"\xff\xc0")
    good[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(good)


def _bad_sum() -> bytes:
    good = bytearray(saved(plain(), "PNG"))
    good[good.index(b"IDAT") + 6] ^= 0xFF
    return bytes(good)


def _text_bomb() -> bytes:
    bomb = chunk(b"zTXt", b"k\0\0" + zlib.compress(b"\0" * (80 << 20), 9))
    return raw_png(SIDE, SIDE, _lines(bytes(RED)), more=bomb)


def _endless_scans() -> bytes:
    good = saved(plain(128, (2_000, 2_000), "L"), "JPEG", progressive=True)
    scan = good[good.rindex(b"\xff\xda") : -2]
    return good[:-2] + scan * 100_000 + good[-2:]


PNG_HEAD, JPEG_HEAD = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
# None of these is a picture; each begins like one of the four kinds, or it would not get as far as the decoder.
HOSTILE: dict[str, Callable[[], bytes]] = {
    "png: head only": lambda: PNG_HEAD,
    "png: rubbish": lambda: PNG_HEAD + b"rubbish" * 50,
    "png: half": lambda: _half(_noise("PNG")),
    "png: header only": lambda: saved(plain(), "PNG")[:40],
    "png: bad sum": _bad_sum,
    "png: no pixels wide": lambda: raw_png(0, SIDE, b"\0" * SIDE),
    "png: no pixels high": lambda: raw_png(SIDE, 0, b""),
    "png: a bomb of 100 million pixels": lambda: raw_png(10_000, 10_000, bytes(1_000), depth=1, kind=0),
    "png: a bomb of 41 million pixels": lambda: saved(plain(1, (8_200, 5_000), "1"), "PNG"),
    "png: two thousand million wide": lambda: raw_png(2**31 - 1, 2**31 - 1, bytes(100)),
    "png: no such depth": lambda: raw_png(SIDE, SIDE, _lines(bytes(RED)), depth=7),
    "png: no such kind": lambda: raw_png(SIDE, SIDE, _lines(bytes(RED)), kind=5),
    "png: no such filter": lambda: raw_png(SIDE, SIDE, (b"\x63" + bytes(RED) * SIDE) * SIDE),
    "png: a strip": lambda: saved(plain(size=(9_000, 20)), "PNG"),
    "png: a tower": lambda: saved(plain(size=(20, 9_000)), "PNG"),
    "png: a text bomb": _text_bomb,
    "jpeg: head only": lambda: JPEG_HEAD,
    "jpeg: head and end": lambda: b"\xff\xd8\xff\xd9",
    "jpeg: rubbish": lambda: JPEG_HEAD + b"\xe0" + b"rubbish" * 50,
    "jpeg: half": lambda: _half(_noise("JPEG")),
    "jpeg: lacks its last bytes": lambda: _noise("JPEG")[:-8],
    "jpeg: header only": lambda: _noise("JPEG")[:300],
    "jpeg: zeroes": lambda: JPEG_HEAD + bytes(1000),
    "jpeg: huge": lambda: _jpeg_of_size(65_000, 65_000),
    "jpeg: no pixels": lambda: _jpeg_of_size(0, 0),
    "jpeg: painted over and over": _endless_scans,
    "jpeg: progressive, half": lambda: _half(_noise("JPEG", progressive=True)),
    "gif: head only": lambda: b"GIF89a",
    "gif: rubbish": lambda: b"GIF87a" + b"rubbish" * 50,
    "gif: half": lambda: _half(_noise("GIF")),
    "gif: huge": lambda: _gif_of_size(65_535, 65_535),
    "gif: a frame far away": _gif_with_far_frame,
    "gif: a million notes": lambda: saved(plain(), "GIF")[:13] + b"\x21\xfe\x01x\0" * 1_300_000,
    "gif: no frame": lambda: saved(plain(), "GIF")[:13] + b";",
    "webp: head only": lambda: b"RIFF\x04\0\0\0WEBP",
    "webp: rubbish": lambda: b"RIFF\xff\0\0\0WEBP" + b"rubbish" * 50,
    "webp: half": lambda: _half(_noise("WEBP")),
    "webp: huge": lambda: _webp_of_size(16_384, 16_384),
    "webp: no pixels in it": lambda: _webp_of_size(64, 64),
    "webp: a canvas without end": _huge_canvas_webp,
}


# Whole enough for a decoder, which makes up what is missing.
DAMAGED: dict[str, Callable[[], bytes]] = {
    "png with too few rows": lambda: raw_png(SIDE, SIDE, (b"\0" + bytes(RED) * SIDE) * 3),
    "jpeg larger than its pixels": lambda: _jpeg_of_size(2_000, 2_000),
}


def _half(file: bytes) -> bytes:
    return file[: len(file) // 2]
