"""Work that goes on although the one who caused it has left. Everything started here is waited for before the server ends."""

import asyncio
import logging
from collections.abc import Coroutine

logger = logging.getLogger(__name__)


class Background:
    """Owns tasks in the event loop. An error that nobody awaits is logged, never lost."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[None, None, None]) -> None:
        """Run the work; nobody waits for it but `close`."""
        self._add(work)  # type: ignore[unused-awaitable]  # the set keeps it, and `close` awaits it

    async def finish(self, work: Coroutine[None, None, None]) -> None:
        """Run the work and wait for it. A caller that is cancelled leaves at once; the work goes on to its end."""
        await asyncio.shield(self._add(work))

    def _add(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)

        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("work in the background ended with an error", exc_info=error)

    async def close(self) -> None:
        """Wait until all work has ended, also work that was started meanwhile."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
