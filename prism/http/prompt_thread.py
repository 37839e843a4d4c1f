"""The one thread in which requests become prompts, so that the event loop answers others meanwhile.

Used by the chat handler; opened and closed with the server. A template may take half a second of processor time and a search through 10 MB
some more, while Python lets the loop's thread run every few milliseconds. One thread, since templates serve one caller at a time.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class PromptThread:
    """Runs one preparation after the other, in the order of arrival."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="prompts")

    async def run(self, prepare: Callable[[], T]) -> T:
        """Return what `prepare` returns, or raise what it raises. One that waits is forgotten when its caller is cancelled."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, prepare)

    async def close(self) -> None:
        """End the thread; waits for what runs, about a second at the most."""
        await asyncio.to_thread(self._executor.shutdown, cancel_futures=True)
