"""Accepts connections: a few at a time, within their bound, and without a storm in the log when the system has no descriptors left.

asyncio's own accepting takes as many connections in one turn of the loop as may wait, holding up all others meanwhile; and when the
process has no descriptors left it logs a traceback for each try, thousands a second. Opened by `prism.http.serve` and by tests.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Sequence

from prism.descriptors import are_short, descriptor_limit, is_short
from prism.http.connection_bound import ConnectionBound, Place
from prism.http.socket_options import watch_peer

logger = logging.getLogger(__name__)

# Connections that may wait to be accepted. The kernel takes the smaller of this and net.core.somaxconn.
BACKLOG = 4096
# Accepted in one turn of the event loop: those who are connected already come between.
_ACCEPTS_A_TURN = 128
# A look whether connections can be accepted again.
_RETRY_S = 0.25
# The same trouble is told once in this time.
_LOG_EVERY_S = 60.0

Connect = Callable[[Place], asyncio.Protocol]


class Listener:
    """The sockets that a server listens on.

    connect: makes the protocol of a connection. bound: how many there may be.
    """

    def __init__(self, sockets: Sequence[socket.socket], connect: Connect, bound: ConnectionBound) -> None:
        self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        self._connect = connect
        self._bound = bound
        self._limit = descriptor_limit()
        self._beginning: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._told_at = -_LOG_EVERY_S
        bound.on_free = self._hear_of_place
        self._start()

    @property
    def port(self) -> int:
        """The port of the first socket."""
        port: int = self._sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Accept nothing more. Connections that are open stay."""
        self._stop()
        self._bound.on_free = _do_nothing

        if self._retry is not None:
            self._retry.cancel()

        for listening in self._sockets:
            listening.close()

        await asyncio.gather(*self._beginning, return_exceptions=True)

    def _start(self) -> None:
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _stop(self) -> None:
        for listening in self._sockets:
            self._loop.remove_reader(listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            if self._bound.is_full:
                self._pause()
                return

            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Mostly of descriptors or memory; on Linux also what went wrong in the network before the connection was taken.
                self._tell("no connection can be accepted for now: %s", error)
                self._pause()
                return

            if not self._take(accepted):
                return

    def _take(self, accepted: socket.socket) -> bool:
        """Begin to serve a connection, and say whether another one may be accepted at once."""
        is_low = is_short(accepted.fileno(), self._limit)
        accepted.setblocking(False)  # noqa: FBT003 - the parameter has no name
        place = self._bound.take(is_low=is_low)

        if place.is_crowded and not is_low:
            self._tell("%d connections are open: more are told server_busy", self._bound.open_connections)

        beginning = self._loop.create_task(self._begin(accepted, place))
        self._beginning.add(beginning)
        beginning.add_done_callback(self._beginning.discard)

        if is_low:
            self._tell("few of the %d files that may be open are left: new connections wait", self._limit)
            self._pause()

        return not is_low

    async def _begin(self, accepted: socket.socket, place: Place) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._connect(place), accepted)
        except OSError:
            # It was gone before it began.
            accepted.close()
            place.free()

    def _tell(self, trouble: str, *values: object) -> None:
        now = self._loop.time()

        if now - self._told_at >= _LOG_EVERY_S:
            self._told_at = now
            logger.warning(trouble, *values)

    def _pause(self) -> None:
        self._stop()

        if self._retry is None:
            self._retry = self._loop.call_later(_RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._retry = None

        if self._can_accept():
            self._start()
        else:
            self._retry = self._loop.call_later(_RETRY_S, self._try_again)

    def _hear_of_place(self) -> None:
        """Go on at once if it was paused and can be done again: a connection is gone."""
        if self._retry is not None and self._can_accept():
            self._retry.cancel()
            self._retry = None
            self._start()

    def _can_accept(self) -> bool:
        return not self._bound.is_full and not are_short(self._limit)


async def listen(host: str, port: int, connect: Connect, bound: ConnectionBound, peer_timeout_s: float) -> Listener:
    """Listen on all addresses that a name stands for. Raises OSError when one of them cannot be had.

    peer_timeout_s: as for `watch_peer`.
    """
    loop = asyncio.get_running_loop()
    # It finds the addresses and binds them as every asyncio server does; it never serves.
    binding = await loop.create_server(asyncio.Protocol, host, port, reuse_address=True, start_serving=False)

    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(bound_socket.dup()) for bound_socket in binding.sockets]
        binding.close()

        for listening in sockets:
            watch_peer(listening, peer_timeout_s)
            listening.listen(BACKLOG)

        opened.pop_all()
        return Listener(sockets, connect, bound)


def _do_nothing() -> None:
    """Nobody waits for a place."""
