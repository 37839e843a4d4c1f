"""Who is connected to a bound socket, counted from ZeroMQ's own events. Made and closed by `FrontEnd`, in the event loop's thread.

ZeroMQ's thread tells of an end only after it has read all that the peer ever sent; so "nobody is connected any more" means that
nothing is on its way.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable

import zmq

_EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED


class Connections:
    """To be made before the socket is bound, so that no connection is missed.

    on_all_gone: called when the last of those who were connected has gone.
    """

    def __init__(self, socket: zmq.Socket[bytes], on_all_gone: Callable[[], None]) -> None:
        self._socket = socket
        self._on_all_gone = on_all_gone
        self._open = 0
        self._all_gone = asyncio.Event()
        self._monitor = socket.get_monitor_socket(_EVENTS)
        self._fd = int(self._monitor.getsockopt(zmq.FD))
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._read)
        # The descriptor signals only to one who has looked and found nothing.
        self._read()

    async def wait_all_gone(self, timeout_s: float) -> None:
        """Wait until somebody was connected and nobody is any more; at most timeout_s."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._all_gone.wait()

    def close(self) -> None:
        """Stop counting. Before the socket is closed."""
        self._loop.remove_reader(self._fd)
        self._socket.disable_monitor()
        self._monitor.close(linger=0)

    def _read(self) -> None:
        # The descriptor signals edges, so all that is there must be taken.
        while not self._monitor.closed:
            try:
                event, _ = self._monitor.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return

            self._count(int.from_bytes(event[:2], sys.byteorder))

    def _count(self, event: int) -> None:
        if event == zmq.EVENT_ACCEPTED:
            self._open += 1
            self._all_gone.clear()
        elif event == zmq.EVENT_DISCONNECTED:
            self._open -= 1

            if self._open == 0:
                self._all_gone.set()
                self._on_all_gone()
