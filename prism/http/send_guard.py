"""Ends a connection whose client has stopped reading: what is made for it would be held, and its turn with it, for as long as it likes.

Used by `prism.http.protocol` for one connection. Only a client that takes nothing at all is ended; one that reads slowly is left alone.
"""

import asyncio
import fcntl
import logging
import socket
import struct
import termios
from collections.abc import Callable

logger = logging.getLogger(__name__)

# So often is looked within the time, so a client is ended at most this part of it late.
_LOOKS = 8
# Close without a farewell: what the kernel still holds for this client is thrown away.
_RESET = struct.pack("ii", 1, 0)


class SendGuard:
    """Looks at a connection while bytes wait for its client.

    timeout_s: a client that takes nothing for this long is ended; 0 for never. written: how many bytes the answer that is being written
    has so far, as handed to the transport.
    """

    def __init__(self, transport: asyncio.Transport, timeout_s: float, written: Callable[[], int]) -> None:
        self._transport = transport
        self._timeout_s = timeout_s
        self._written = written
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._taken = 0
        self._taken_at = 0.0

    def begin(self) -> None:
        """Bytes wait: the kernel has not taken all of them."""
        if self._handle is None and self._timeout_s > 0:
            self._taken = self._bytes_taken()
            self._taken_at = self._loop.time()
            self._look_later()

    def end(self) -> None:
        """None waits any more, or the connection is gone."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _look_later(self) -> None:
        self._handle = self._loop.call_later(self._timeout_s / _LOOKS, self._look)

    def _look(self) -> None:
        self._handle = None
        taken = self._bytes_taken()
        now = self._loop.time()

        if taken != self._taken:
            self._taken = taken
            self._taken_at = now

        if now - self._taken_at < self._timeout_s:
            self._look_later()
        else:
            self._abort()

    def _bytes_taken(self) -> int:
        """Return how many bytes the client's machine has, counted from an arbitrary beginning.

        The kernel takes more from us only when a large part of its own buffer is free, so that alone would not show a slow reader.
        """
        return self._written() - self._transport.get_write_buffer_size() - _unacknowledged(self._socket())

    def _abort(self) -> None:
        logger.info("a client took nothing for %g s: its connection is ended", self._timeout_s)
        sock = self._socket()

        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

        self._transport.abort()

    def _socket(self) -> socket.socket | None:
        found: socket.socket | None = self._transport.get_extra_info("socket")
        return found


def _unacknowledged(sock: socket.socket | None) -> int:
    """Return how many bytes the kernel holds because the peer has not acknowledged them (tcp(7), SIOCOUTQ); 0 where it does not tell."""
    if sock is None:
        return 0

    count = bytearray(struct.calcsize("i"))

    try:
        fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, count)
    except OSError:
        return 0

    unacknowledged: int = struct.unpack("i", count)[0]
    return unacknowledged
