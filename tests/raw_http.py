"""A client that sends bytes and reads answers as they come, for what no well-behaved client does. Blocking, with a bound on every wait."""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 10.0
LOCALHOST = "Host: localhost"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. headers: names in lower case; a name that comes twice is joined with a comma."""

    version: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        """The object of the envelope; whatever is no envelope fails the test."""
        assert self.headers["content-type"].startswith("application/json"), self
        assert set(self.json) == {"error"}, self
        error = self.json["error"]
        assert {"message", "type", "param", "code"} <= set(error), self
        assert isinstance(error["message"], str), self
        assert error["message"], self
        return error


class Wire:
    """One connection."""

    def __init__(self, base_url: str) -> None:
        address = urlsplit(base_url)
        assert address.hostname is not None
        self.socket = socket.create_connection((address.hostname, address.port or 80), TIMEOUT_S)
        self._file = self.socket.makefile("rb")

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def send(self, data: bytes | str) -> None:
        self.socket.sendall(data.encode() if isinstance(data, str) else data)

    def reply(self, *, has_body: bool = True) -> Reply:
        """Read one whole answer. has_body: false for the answer to HEAD."""
        version, _, rest = self._line().partition(" ")
        status = int(rest.split(" ")[0])
        headers: dict[str, str] = {}

        while line := self._line():
            name, _, value = line.partition(":")
            name = name.lower()
            headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()

        is_empty = not has_body or status in (100, 204)
        return Reply(version, status, headers, b"" if is_empty else self._body(headers))

    def is_closed(self) -> bool:
        """Wait for the next byte or the end, and say whether it is the end."""
        try:
            return self._file.peek(1) == b""
        except ConnectionError:
            return True

    def read_part(self) -> bytes:
        """Return what is there, at least one byte."""
        return self._file.read1(65_536)

    def _line(self) -> str:
        line = self._file.readline()
        assert line.endswith(b"\r\n"), line
        return line[:-2].decode("latin-1")

    def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            return b"".join(iter(self._chunk, b""))

        length = headers.get("content-length")
        return self._file.read(None if length is None else int(length))

    def _chunk(self) -> bytes:
        size = int(self._line(), 16)
        chunk = self._file.read(size)
        assert self._line() == ""
        return chunk


def head(method: str, path: str, *headers: str, version: str = "1.1") -> str:
    """Return a request line and headers; without a Host among them, that of this machine."""
    has_host = any(header.lower().startswith("host:") for header in headers)
    lines = [f"{method} {path} HTTP/{version}", *([] if has_host else [LOCALHOST]), *headers]
    return "\r\n".join([*lines, "", ""])


def send_raw(base_url: str, data: bytes | str, *, has_body: bool = True) -> Reply:
    """Send bytes on a connection of their own and return the first answer."""
    with Wire(base_url) as wire:
        wire.send(data)
        return wire.reply(has_body=has_body)


def send(base_url: str, method: str, path: str, *headers: str, body: bytes | str = b"", version: str = "1.1") -> Reply:
    """Send one ordinary request and return its answer."""
    content = body.encode() if isinstance(body, str) else body
    length = (f"Content-Length: {len(content)}",) if content or method not in ("GET", "HEAD", "OPTIONS") else ()
    request = head(method, path, *headers, *length, version=version).encode() + content
    return send_raw(base_url, request, has_body=method != "HEAD")
