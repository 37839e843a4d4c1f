"""Bodies of unload and drain: nothing or any object; a bad one is refused before anything happens."""

from collections.abc import Callable

import pytest

from prism.api.admin_request import (
    DrainRequest,
    UnloadRequest,
    decode_drain_request,
    decode_unload_request,
    wait_bound_s,
)
from prism.api.errors import ApiError

Decode = Callable[[bytes], object]
BOTH = pytest.mark.parametrize("decode", [decode_unload_request, decode_drain_request])


@BOTH
@pytest.mark.parametrize("body", [b"", b"{}", b' {"any": ["thing", 1]} ', b'{"model":"x"}'])
def test_nothing_or_any_object_is_accepted(decode: Decode, body: bytes) -> None:
    decode(body)


@BOTH
@pytest.mark.parametrize(
    "body", [b"[]", b"null", b"5", b'"drain"', b"true", b"now", b"{", b" ", b"\xff", b"[" * 200_000]
)
def test_anything_else_is_refused(decode: Decode, body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        decode(body)

    assert (caught.value.status, caught.value.code) == (400, None)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", None),
        (b"{}", None),
        (b'{"timeout_ms":null}', None),
        (b'{"timeout_ms":0}', 0.0),
        (b'{"timeout_ms":1500}', 1.5),
        (b'{"timeout_ms":' + b"9" * 400 + b"}", 86_400.0),
    ],
)
def test_the_bound_of_the_wait(body: bytes, expected: float | None) -> None:
    assert wait_bound_s(decode_drain_request(body)) == expected


@pytest.mark.parametrize("value", [b"-1", b"1.5", b'"5"', b"true", b"[]", b"1e3"])
def test_a_bound_that_is_none_is_refused(value: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        decode_drain_request(b'{"timeout_ms":' + value + b"}")

    assert caught.value.param == "timeout_ms"


@pytest.mark.parametrize("value", [b"-1", b"1.5", b'"5"', b"true", b"[]", b"1e3", b"null"])
def test_unload_ignores_what_drain_checks(value: bytes) -> None:
    assert decode_unload_request(b'{"timeout_ms":' + value + b"}") == UnloadRequest()
    assert wait_bound_s(decode_unload_request(b'{"timeout_ms":1500, "other": {"a": [1]}}')) == 1.5
    assert wait_bound_s(decode_unload_request(b"")) is None


def test_a_drain_without_a_body_has_no_bound() -> None:
    assert decode_drain_request(b"") == DrainRequest(timeout_ms=None)
