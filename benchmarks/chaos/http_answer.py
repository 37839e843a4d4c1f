"""One HTTP/1.1 answer out of the bytes that a socket gave. Pure, and written for the judge alone: no client library may mend what came.

Called again with more bytes as they come.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_HEAD_END = b"\r\n\r\n"


class Malformed(Exception):
    """The bytes are no HTTP answer."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """headers: names in lower case. body: as far as it has come. rest: what came after the end of the answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_whole: bool
    rest: bytes


def read_answer(data: bytes) -> HttpAnswer | None:
    """Return the first answer in `data`; None while its head has not come whole. Raises Malformed."""
    head, mark, after = data.partition(_HEAD_END)

    if not mark:
        if data and not b"HTTP/1.1 "[: len(data)] == data[:9]:
            raise Malformed(f"no answer begins with {data[:40]!r}")

        return None

    lines = head.decode("latin-1").split("\r\n")
    status, headers = _status(lines[0]), _headers(lines[1:])

    if "content-length" in headers and "transfer-encoding" in headers:
        raise Malformed("a length and chunks in one answer")

    if headers.get("transfer-encoding", "chunked") != "chunked":
        raise Malformed(f"transfer-encoding {headers['transfer-encoding']!r}")

    if "transfer-encoding" in headers:
        return HttpAnswer(status, headers, *_chunked(after))

    if not headers.get("content-length", "").isdecimal():
        raise Malformed("an answer of unknown length")

    length = int(headers["content-length"])
    return HttpAnswer(status, headers, after[:length], len(after) >= length, after[length:])


def _status(line: str) -> int:
    version, _, rest = line.partition(" ")
    code = rest.partition(" ")[0]

    if version != "HTTP/1.1" or len(code) != 3 or not code.isdecimal():
        raise Malformed(f"no status line: {line!r}")

    return int(code)


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}

    for line in lines:
        name, colon, value = line.partition(":")

        if not colon or name.lower() in headers:
            raise Malformed(f"no header, or a second one: {line!r}")

        headers[name.lower()] = value.strip()

    return headers


def _chunked(data: bytes) -> tuple[bytes, bool, bytes]:
    """Return what the chunks hold, whether the last one has come, and what follows it."""
    body = bytearray()
    at = 0

    while (line_end := data.find(b"\r\n", at)) >= 0:
        size = _size(data[at:line_end])
        begin, end = line_end + 2, line_end + 2 + size
        body += data[begin:end]

        if len(data) < end + 2:
            break

        if data[end : end + 2] != b"\r\n":
            raise Malformed(f"a chunk that is longer than it says: {data[end : end + 20]!r}")

        at = end + 2

        if size == 0:
            return bytes(body), True, data[at:]

    return bytes(body), False, b""


def _size(line: bytes) -> int:
    try:
        # int() alone would take a sign and blanks.
        if not line.isalnum():
            raise ValueError(line)

        return int(line, 16)
    except ValueError:
        raise Malformed(f"no size of a chunk: {line[:20]!r}") from None
