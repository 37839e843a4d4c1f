"""Work that goes on although the one who caused it has left. Everything started here is waited for before the server ends.

Such work keeps the host's promises: it hands turns on and ends workers. So an error in it that is no known end of anything is told to the
owner of the process, who ends it (`on_fault`).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from supervisor.errors import SupervisorError

logger = logging.getLogger(__name__)


def ignore_fault(_: BaseException) -> None:
    """Go on: the log has it."""


class Background:
    """Owns tasks in the event loop. An error that nobody awaits is logged, never lost.

    on_fault: called for one that no part of the supervisor foresees.
    """

    def __init__(self, on_fault: Callable[[BaseException], None] = ignore_fault) -> None:
        self._on_fault = on_fault
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
        self.look_at(task)

    def look_at(self, task: asyncio.Task[Any]) -> None:  # Any: its result is nobody's business here
        """Take in the end of a task, also of one that was started elsewhere."""
        if task.cancelled() or (error := task.exception()) is None:
            return

        self.tell(error)

    def tell(self, error: BaseException) -> None:
        """Take in an error that no request is told of, or not alone."""
        if isinstance(error, SupervisorError):
            logger.error("work in the background ended with an error: %s", error)
            return

        logger.error("work in the background ended with an error", exc_info=error)
        self._on_fault(error)

    async def close(self) -> None:
        """Wait until all work has ended, also work that was started meanwhile."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
