"""The exclusive right to use the worker, given in order of arrival. Lives in the event loop's thread; nothing here blocks.

A turn is taken by requests and by the operator's commands (unload, drain). Operators go ahead of waiting requests, behind the turn
that is being used. A waiter that leaves is forgotten at once.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from supervisor.errors import ServerBusy, ServerDraining


@dataclass(eq=False, slots=True)
class _Waiter:
    model_id: str | None
    granted: asyncio.Future[None] = field(repr=False)


class Turns:
    """A fair queue for one right.

    max_queue: requests that may wait; 0 means no bound. queue_timeout_s: longest wait; 0 means for ever. Operators are bound by neither.
    """

    def __init__(self, max_queue: int, queue_timeout_s: float) -> None:
        self._max_queue = max_queue
        self._queue_timeout_s = queue_timeout_s
        self._requests: deque[_Waiter] = deque()
        self._operators: deque[_Waiter] = deque()
        self._is_taken = False
        self._is_closed = False
        self._wanted = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Requests that really wait (operators are not counted)."""
        return len(self._requests)

    @property
    def is_taken(self) -> bool:
        """For reports only; never a reason to act."""
        return self._is_taken

    @property
    def max_queue(self) -> int:
        """The bound of waiting requests; 0 means none."""
        return self._max_queue

    def next_wants(self, model_id: str) -> bool:
        """Say whether the next turn goes to a request for this model (and not to an operator)."""
        # One that was cancelled a moment ago still stands in the queue.
        queue = [*self._operators, *self._requests]
        first = next((waiter for waiter in queue if not waiter.granted.done()), None)
        return first is not None and first.model_id == model_id

    async def take_for_request(self, model_id: str) -> None:
        """Wait for the turn. Raises ServerBusy when the queue is full or the wait too long, ServerDraining after `close`.

        The caller must `release`, on every path, once this has returned. Cancelled while waiting: the place is free at once.
        """
        if self._is_closed:
            raise ServerDraining("the server is draining and takes no new request")

        if self._is_taken and self._max_queue and len(self._requests) >= self._max_queue:
            raise ServerBusy(f"{len(self._requests)} requests wait already (--max-queue {self._max_queue})")

        await self._take(self._requests, model_id, self._queue_timeout_s or None)

    async def wait_wanted(self) -> None:
        """Wait until somebody waits for the turn, request or operator."""
        while not self._operators and not self._requests:
            self._wanted.clear()
            await self._wanted.wait()

    async def take_for_operator(self) -> None:
        """Wait for the turn ahead of all waiting requests, without a bound."""
        await self._take(self._operators, None, None)

    def take_if_free(self) -> bool:
        """Take the turn when nobody has it; return whether it was taken. It must then be released."""
        if self._is_taken:
            return False

        self._is_taken = True
        return True

    async def _take(self, queue: deque[_Waiter], model_id: str | None, timeout_s: float | None) -> None:
        if self.take_if_free():
            return

        waiter = _Waiter(model_id, asyncio.get_running_loop().create_future())
        queue.append(waiter)
        self._wanted.set()

        try:
            async with asyncio.timeout(timeout_s):
                await waiter.granted
        except TimeoutError:
            self._forget(queue, waiter)
            raise ServerBusy(
                f"the model stayed busy with other requests for {self._queue_timeout_s:g} s (--queue-timeout)"
            ) from None
        except BaseException:
            self._forget(queue, waiter)
            raise

    def _forget(self, queue: deque[_Waiter], waiter: _Waiter) -> None:
        """Take a waiter out. One that left in the very moment of its grant hands the turn on."""
        if waiter.granted.done() and not waiter.granted.cancelled() and waiter.granted.exception() is None:
            self.release()
        elif waiter in queue:
            queue.remove(waiter)

    def release(self) -> None:
        """Give the turn to the next one that still waits."""
        for queue in (self._operators, self._requests):
            while queue:
                waiter = queue.popleft()

                if not waiter.granted.done():
                    waiter.granted.set_result(None)
                    return

        self._is_taken = False

    def close(self) -> None:
        """Refuse new requests, and those that wait, in their order. Operators may still come."""
        self._is_closed = True

        while self._requests:
            waiter = self._requests.popleft()

            if not waiter.granted.done():
                waiter.granted.set_exception(ServerDraining("the server is draining and takes no new request"))
