"""The pictures of a request, before anybody decodes them."""

import base64
import socket
from typing import Any

import pytest

from prism.api.chat_messages import ImageUrl
from prism.api.errors import ApiError
from prism.api.image_url import CheckedImage, check_images
from prism.api.limits import MAX_IMAGES
from prism.api.normalise import ImagePart

FIELD = "messages[0].content[1].image_url"
PNG = b"\x89PNG\r\n\x1a\n and more"
ENCODED = base64.b64encode(PNG).decode()


def part(url: str, detail: Any = None) -> ImagePart:
    return ImagePart(0, 1, FIELD, ImageUrl(url=url, detail=detail))


def refusal_of(url: str) -> ApiError:
    with pytest.raises(ApiError) as caught:
        check_images([part(url)])

    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    "head",
    [
        "data:image/png;base64,",
        "DATA:IMAGE/PNG;BASE64,",
        "data:image/png;name=a.png;base64,",
        "data:image/jpeg;base64,",
        "data:image/jpg;base64,",
        "data:image/gif;base64,",
        "data:image/webp;base64,",
    ],
)
def test_a_data_url_becomes_its_file(head: str) -> None:
    assert check_images([part(head + ENCODED)]) == [
        CheckedImage(field=FIELD, message_index=0, part_index=1, base64=ENCODED, data=PNG, is_low_detail=False)
    ]


@pytest.mark.parametrize(
    "content", [PNG, b"\xff\xd8\xff\xe0", b"GIF87a..", b"GIF89a..", b"RIFF\x00\x00\x00\x00WEBPVP8 ", b"RIFF1234WEBP"]
)
def test_each_allowed_kind_is_known_by_its_first_bytes(content: bytes) -> None:
    checked = check_images([part("data:image/png;base64," + base64.b64encode(content).decode())])
    assert checked[0].data == content


@pytest.mark.parametrize(
    "content",
    [b"BM123456", b"II*\x00", b"<svg/>", b"RIFF1234WAVE", b"\x89PNG", b"%PDF-1.7", b"\xff\xd8", b"GIF88a", b"x"],
)
def test_other_kinds_are_refused_whatever_their_type_says(content: bytes) -> None:
    error = refusal_of("data:image/png;base64," + base64.b64encode(content).decode())
    assert error.param == FIELD
    assert "PNG, JPEG, GIF and WebP" in error.message


@pytest.mark.parametrize(("detail", "is_low"), [(None, False), ("auto", False), ("high", False), ("low", True)])
def test_detail_is_kept(detail: str | None, is_low: bool) -> None:
    assert check_images([part("data:image/png;base64," + ENCODED, detail)])[0].is_low_detail is is_low


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/a.png",
        "https://example.invalid/a.png",
        "file:///etc/passwd",
        "ftp://example.invalid/a.png",
        "//example.invalid/a.png",
        "/etc/passwd",
        " data:image/png;base64," + ENCODED,
        "",
        ENCODED,
    ],
)
def test_what_would_have_to_be_fetched_is_refused_and_not_fetched(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def touched(*_: object) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "getaddrinfo", touched)
    monkeypatch.setattr(socket, "socket", touched)
    error = refusal_of(url)
    assert error.param == FIELD
    assert "data URL" in error.message


@pytest.mark.parametrize(
    "url",
    [
        "data:," + ENCODED,
        "data:;base64," + ENCODED,
        "data:image/svg+xml;base64," + ENCODED,
        "data:image/bmp;base64," + ENCODED,
        "data:text/html;base64," + ENCODED,
        "data:application/octet-stream;base64," + ENCODED,
        "data:image/png," + ENCODED,
        "data:image/png;base64;name=x," + ENCODED,
        "data:image/png;base64",
    ],
)
def test_other_data_urls_are_refused(url: str) -> None:
    assert refusal_of(url).param == FIELD


@pytest.mark.parametrize(
    "encoded",
    [
        ENCODED[:-1],
        ENCODED + "=",
        ENCODED[:8] + "\n" + ENCODED[8:],
        ENCODED + "%0A",
        ENCODED[:8] + "-_" + ENCODED[8:],
        "=" + ENCODED,
        "é" + ENCODED,
        "!!!!",
        "A",
    ],
)
def test_what_is_no_strict_base64_is_refused(encoded: str) -> None:
    error = refusal_of("data:image/png;base64," + encoded)
    assert error.param == FIELD
    assert "base64" in error.message


def test_an_empty_file_is_refused() -> None:
    assert "no data" in refusal_of("data:image/png;base64,").message


def test_no_more_pictures_than_the_bound() -> None:
    good = part("data:image/png;base64," + ENCODED)
    assert len(check_images([good] * MAX_IMAGES)) == MAX_IMAGES

    with pytest.raises(ApiError) as caught:
        check_images([good] * (MAX_IMAGES + 1))

    assert caught.value.param == "messages"


def test_a_message_never_repeats_a_long_url() -> None:
    assert len(refusal_of("data:" + "x" * 100_000 + ",").message) < 300
    assert len(refusal_of("x" * 100_000 + "://").message) < 300
