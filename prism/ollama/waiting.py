"""Every wait for the Ollama daemon: bounded, and ended when this server ends. Owned by `prism.ollama.daemon`, in the front's event loop."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from prism.ollama.errors import AnswersAreCut, DaemonSilent

T = TypeVar("T")
# What was cut still has to tell its client.
_CUT_GRACE_S = 1.0


class Waiting:
    """Knows all waits that go on, and the requests that they belong to."""

    def __init__(self) -> None:
        self._waits: set[asyncio.Timeout] = set()
        self._open_requests = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_closed = False
        self._is_cut = False
        self._cutting: asyncio.TimerHandle | None = None

    async def wait(self, awaitable: Awaitable[T], timeout_s: float, what: str) -> T:
        """Return what is waited for. Raises DaemonSilent after the time, and AnswersAreCut when the server ends. what: for the message."""
        scope = asyncio.timeout(0 if self._is_cut else timeout_s)

        try:
            async with scope:
                self._waits.add(scope)

                try:
                    return await awaitable
                finally:
                    self._waits.discard(scope)
        except TimeoutError as error:
            # The library has timeouts of its own, which tell more.
            if not scope.expired():
                raise

            if self._is_cut:
                raise AnswersAreCut("the server ends") from error

            raise DaemonSilent(f"{what} did not come within {timeout_s:.3g} s") from error

    def begin(self) -> None:
        """A request begins. Raises AnswersAreCut when no new one may."""
        if self._is_closed:
            raise AnswersAreCut("the server ends")

        self._open_requests += 1
        self._idle.clear()

    def end(self) -> None:
        """A request that had begun is over."""
        self._open_requests -= 1

        if self._open_requests == 0:
            self._idle.set()

    def drain(self, timeout_s: float | None) -> None:
        """Let no request begin any more. timeout_s: those that run are cut after this time; None lets them come to their end."""
        self._is_closed = True

        if timeout_s is not None:
            if self._cutting is not None:
                self._cutting.cancel()

            self._cutting = asyncio.get_running_loop().call_later(timeout_s, self.cut)

    def cut(self) -> None:
        """End what runs."""
        self._is_closed = self._is_cut = True
        now = asyncio.get_running_loop().time()

        for scope in self._waits:
            scope.reschedule(now)

        if self._cutting is not None:
            self._cutting.cancel()

        # One whose client does not read cannot end by itself; the server's end ends its connection.
        self._cutting = asyncio.get_running_loop().call_later(_CUT_GRACE_S, self._idle.set)

    def close(self) -> None:
        """End what runs; nobody waits for it any more."""
        self.cut()

        if self._cutting is not None:
            self._cutting.cancel()

    async def wait_idle(self) -> None:
        """Wait until no request is open. Its bound is that of `drain`."""
        await self._idle.wait()
