"""A one-reader queue between the channel's callback and the coroutine that answers a client. Cheaper than asyncio.Queue, unbounded
because its content is: one request makes at most max_tokens messages."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Items in order; one coroutine at a time may wait."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: T) -> None:
        """Add an item and wake the reader."""
        self._items.append(item)

        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self) -> T:
        """Return the oldest item; wait while there is none."""
        while not self._items:
            self._waiter = asyncio.get_running_loop().create_future()

            try:
                await self._waiter
            finally:
                self._waiter = None

        return self._items.popleft()

    def get_ready(self) -> T | None:
        """Return the oldest item if there is one already."""
        return self._items.popleft() if self._items else None
