"""Tells systemd how the server does: READY, STATUS, WATCHDOG, STOPPING, EXTEND_TIMEOUT_USEC, as sd_notify(3) describes them.

`prism.http.serve` owns one `Notifier` and starts it once the socket listens; without a socket in the settings it does
nothing. It runs in the event loop's thread and never blocks: what systemd has no room for is said again later. The
watchdog is fed by the loop itself, never by a thread, so that a loop that stands still is noticed.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often what is said, in seconds.

    status_s: between two looks at the status, and before a message that was not taken is tried again.
    extend_s: between two requests for more time while the server drains.
    extension_s: what each of them asks for. Longer than extend_s, so that one lost message does no harm; short enough
    that a loop which stands still while it drains is ended.
    """

    status_s: float = 1.0
    extend_s: float = 10.0
    extension_s: float = 30.0


class Notifier:
    """The server's voice towards systemd. An async context manager: what `start` began ends with the block.

    socket_name: path of a datagram socket, or `@` and a name in the abstract namespace; None for a server without systemd.
    watchdog_s: systemd ends a server that it has not heard of for so long; None when it does not watch.
    """

    def __init__(self, socket_name: str | None, watchdog_s: float | None, pace: Pace | None = None) -> None:
        self._address = f"\0{socket_name[1:]}" if socket_name is not None and socket_name[0] == "@" else socket_name
        self._watchdog_s = watchdog_s
        self._pace = pace or Pace()
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_heard = True

    async def __aenter__(self) -> Self:
        if self._address is not None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            # A fault of the task was logged when it happened; the server does not end differently because of it.
            await asyncio.gather(self._task, return_exceptions=True)

        if self._socket is not None:
            self._socket.close()

    def start(self, status: Callable[[], str], draining: asyncio.Event) -> None:
        """Run `run` until the block ends. Nothing happens without a socket."""
        if self._socket is not None:
            self._task = asyncio.create_task(self.run(status, draining))
            self._task.add_done_callback(_log_failure)

    async def run(self, status: Callable[[], str], draining: asyncio.Event) -> None:
        """Say READY, then feed the watchdog and tell the status, and STOPPING once the event is set, until cancelled.

        status: one line for `systemctl status`.
        """
        await self._until_heard(lambda: self.ready(status()))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._feed())
            tasks.create_task(self._report(status, draining))

    def ready(self, status: str) -> bool:
        """Say that the server answers. As the other words: False when it was not heard."""
        return self._say("READY=1", _status_word(status))

    def status(self, status: str) -> bool:
        """Say what the server is doing."""
        return self._say(_status_word(status))

    def alive(self) -> bool:
        """Feed the watchdog."""
        return self._say("WATCHDOG=1")

    def stopping(self, status: str) -> bool:
        """Say that the server finishes what runs, and then ends."""
        return self._say("STOPPING=1", _status_word(status))

    def extend_timeout(self) -> bool:
        """Ask not to be killed yet."""
        return self._say(f"EXTEND_TIMEOUT_USEC={round(self._pace.extension_s * 1e6)}")

    async def _feed(self) -> None:
        while self._watchdog_s is not None:
            self.alive()
            await asyncio.sleep(self._watchdog_s / 2)

    async def _report(self, status: Callable[[], str], draining: asyncio.Event) -> None:
        told = ""

        while not draining.is_set():
            if (line := status()) != told and self.status(line):
                told = line

            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pace.status_s):
                    await draining.wait()

        await self._until_heard(lambda: self.stopping(status()))

        # Without an end of its own: every answer ends, by its length or because the supervisor finds it stuck.
        while True:
            self.extend_timeout()
            await asyncio.sleep(self._pace.extend_s)

    async def _until_heard(self, say: Callable[[], bool]) -> None:
        while not say():  # noqa: ASYNC110 - no event tells that systemd has room again, or is back
            await asyncio.sleep(self._pace.status_s)

    def _say(self, *words: str) -> bool:
        """Send one datagram. False, and one line in the log, when nobody took it: systemd is busy or gone."""
        if self._socket is None or self._address is None:
            return False

        try:
            self._socket.sendto("\n".join(words).encode(), self._address)
        except OSError as error:
            if self._is_heard:
                logger.warning("systemd does not hear %s: %s", words[0], error.strerror or error)

            self._is_heard = False
            return False

        self._is_heard = True
        return True


def _status_word(status: str) -> str:
    # A line break (a model's name may hold one) would begin another word of the protocol.
    return "STATUS=" + "".join(letter if letter.isprintable() else " " for letter in status)


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("nothing more is said to systemd: %r", error)
