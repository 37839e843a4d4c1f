"""Lets a few requests begin in each round of the event loop, so that a crowd of them does not hold up `/health` and the streams.

Used by the handlers that generate. Two thousand requests that come at once are refused in about a second; without this it would be a second
in which the event loop does nothing else.
"""

import asyncio
from collections import deque

# So many cost a round a few milliseconds.
_STARTS_A_ROUND = 8


class Pace:
    """Requests begin in order of arrival. A request that comes alone begins at once."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._begun = 0

    async def begin(self) -> None:
        """Wait until this request may begin."""
        if self._begun < _STARTS_A_ROUND and not self._waiting:
            self._count()
            return

        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def _count(self) -> None:
        if self._begun == 0:
            asyncio.get_running_loop().call_soon(self._next_round)

        self._begun += 1

    def _next_round(self) -> None:
        self._begun = 0

        while self._waiting and self._begun < _STARTS_A_ROUND:
            waiter = self._waiting.popleft()

            # One whose client has left does not count.
            if not waiter.done():
                waiter.set_result(None)
                self._count()
