"""The judge's own reader of HTTP: what is whole, what is missing, what follows, and what is no answer."""

import pytest

from benchmarks.chaos.http_answer import Malformed, read_answer
from tests.chaos.transcripts import chunked, http


def test_an_answer_is_whole_at_its_last_byte_and_not_before() -> None:
    for data in (http(b"hello"), chunked("hel", "lo")):
        for length in range(len(data)):
            part = read_answer(data[:length])
            assert part is None or not part.is_whole
            assert part is None or b"hello".startswith(part.body)

        whole = read_answer(data)
        assert whole is not None
        assert (whole.is_whole, whole.body, whole.rest) == (True, b"hello", b"")


def test_what_follows_an_answer_is_no_part_of_it() -> None:
    for data in (http(b"hello"), chunked("hello")):
        answer = read_answer(data + b"HTTP/1.1 200")
        assert answer is not None
        assert (answer.body, answer.rest) == (b"hello", b"HTTP/1.1 200")


def test_names_of_headers_are_in_lower_case() -> None:
    answer = read_answer(http(b"{}", 503))
    assert answer is not None
    assert (answer.status, answer.headers["content-type"]) == (503, "application/json")


@pytest.mark.parametrize(
    "data",
    [
        b"hello",
        b"\r\nHTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n",
    ],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        read_answer(data)
