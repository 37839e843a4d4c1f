"""Plays systemd's end of the notify socket, and notes which process said what."""

import asyncio
import socket
import struct
from dataclasses import dataclass

_CREDENTIALS = struct.Struct("3i")
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Notice:
    """One datagram. pid: of the process that sent it, as the kernel says."""

    pid: int
    text: str


class FakeSystemd:
    """A bound notify socket.

    address: path, or `@` and a name; what NOTIFY_SOCKET holds.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(f"\0{address[1:]}" if address[0] == "@" else address)

    def close(self) -> None:
        self._socket.close()

    def waiting(self) -> list[Notice]:
        """Take what has been sent by now, without waiting and without letting the event loop run."""
        notices = []

        while (notice := self._take()) is not None:
            notices.append(notice)

        return notices

    async def next(self) -> Notice:
        """Wait for one datagram."""
        async with asyncio.timeout(_PATIENCE_S):
            while (notice := self._take()) is None:
                await self._wait_readable()

        return notice

    async def until(self, word: str) -> list[Notice]:
        """Wait for a datagram with this word; return it and all that came before."""
        notices = [await self.next()]

        # A bound for all of them: a server may say other words for ever.
        async with asyncio.timeout(_PATIENCE_S):
            while word not in notices[-1].text:
                notices.append(await self.next())

        return notices

    def _take(self) -> Notice | None:
        try:
            data, control, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(_CREDENTIALS.size))
        except BlockingIOError:
            return None

        ((level, kind, credentials),) = control
        assert (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
        return Notice(_CREDENTIALS.unpack(credentials)[0], data.decode())

    async def _wait_readable(self) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._socket, readable.set)

        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._socket)
