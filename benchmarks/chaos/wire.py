"""One connection to a server: sends bytes and keeps what comes, with the time of each part. Mends nothing and retries nothing."""

import asyncio
import re
import socket
import struct
import time
from dataclasses import dataclass, field
from enum import StrEnum

from benchmarks.chaos.http_answer import HttpAnswer, Malformed, read_answer

_PART_BYTES = 65536
# How long a server may keep a connection open after it said that it closes it.
_CLOSE_S = 10.0
_TEXT = re.compile(rb'"(?:content|text)": ?"[^"]')


class Ending(StrEnum):
    """How the wait for an answer ended."""

    WHOLE = "whole"
    LEFT = "left"  # by us, on purpose
    CLOSED = "closed"  # by the server, before the answer was whole
    LATE = "late"


@dataclass(slots=True)
class Received:
    """What came for one request. Times are monotonic. is_left_open: the server said that it closes the connection and did not."""

    sent_at: float
    data: bytearray = field(default_factory=bytearray)
    ending: Ending = Ending.CLOSED
    over_at: float = 0.0
    is_left_open: bool = False
    _parts: list[tuple[int, float]] = field(default_factory=list)

    def add(self, part: bytes) -> None:
        self.data += part
        self._parts.append((len(self.data), time.monotonic()))

    def answer(self) -> HttpAnswer | None:
        """Return the answer as far as it has come; None also for what is none, which the observer will tell."""
        try:
            return read_answer(bytes(self.data))
        except Malformed:
            return None

    def text_at(self) -> float | None:
        """Return when the first text of the answer came."""
        found = _TEXT.search(self.data)
        return None if found is None else next(at for length, at in self._parts if length >= found.end())


class Wire:
    """An open connection; made by `connect`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, request: bytes, bound_s: float, *, until_closed: bool, leave_after_s: float | None) -> Received:
        """Send a request and take what comes until its answer is whole, and with `until_closed` until the server closes.

        bound_s: longest wait. leave_after_s: when this client stops waiting; None when it stays.
        """
        received = Received(time.monotonic())
        patience_s = bound_s if leave_after_s is None else leave_after_s

        try:
            async with asyncio.timeout(patience_s) as bound:
                self._writer.write(request)
                await self._writer.drain()
                await self._take(received, bound, until_closed=until_closed)
        except TimeoutError:
            self._note_patience_is_over(received, stays=leave_after_s is None)
        except ConnectionError:
            # One that comes after the whole answer takes nothing away from it.
            pass

        received.over_at = received.over_at or time.monotonic()
        return received

    @staticmethod
    def _note_patience_is_over(received: Received, *, stays: bool) -> None:
        if received.ending is Ending.WHOLE:
            received.is_left_open = True
        else:
            received.ending = Ending.LATE if stays else Ending.LEFT

    async def _take(self, received: Received, bound: asyncio.Timeout, *, until_closed: bool) -> None:
        while part := await self._reader.read(_PART_BYTES):
            received.add(part)
            answer = received.answer()

            if answer is not None and answer.is_whole and received.ending is not Ending.WHOLE:
                received.ending, received.over_at = Ending.WHOLE, time.monotonic()

                if not until_closed:
                    return

                bound.reschedule(asyncio.get_running_loop().time() + _CLOSE_S)

    def close(self, *, is_rude: bool = False) -> None:
        """End the connection. is_rude: with a reset, as a process that is killed may."""
        if is_rude and (sock := self._writer.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        self._writer.transport.abort()


async def connect(port: int) -> Wire:
    """Open a connection. Raises OSError."""
    return Wire(*await asyncio.open_connection("127.0.0.1", port))


def request(method: str, path: str, body: bytes = b"", *, closes: bool = True) -> bytes:
    """Return an ordinary request."""
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {len(body)}",
        f"Connection: {'close' if closes else 'keep-alive'}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def ask_once(port: int, method: str, path: str, bound_s: float = _CLOSE_S) -> Received:
    """Send one request without a body on a connection of its own. One that is refused is one that was closed."""
    try:
        wire = await connect(port)
    except OSError:
        return Received(time.monotonic())

    try:
        return await wire.ask(request(method, path), bound_s, until_closed=True, leave_after_s=None)
    finally:
        wire.close()
