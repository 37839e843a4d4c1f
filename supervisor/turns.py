"""The right to use the worker, given in order of arrival. Lives in the event loop's thread; nothing here blocks.

A turn is exclusive, until its holder opens it to others of the same model (`share`): who loads, swaps or stops a worker is alone with it,
who only uses one that takes several requests need not be.

A turn is taken by requests and by the operator's commands (unload, drain). Operators go ahead of waiting requests, behind the turns that
are being used. A waiter that leaves is forgotten at once. One whose model may not be started yet (a back-off) keeps its place while
others, for whose model that does not hold, pass by.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from supervisor.errors import ServerBusy, ServerDraining
from supervisor.event_log import EventLog


def _never() -> float:
    return 0.0


@dataclass(eq=False, slots=True)
class _Waiter:
    model_id: str | None
    held_back_s: Callable[[], float]
    granted: asyncio.Future[None] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Share:
    """Up to `places` requests for this model may have the turn together."""

    model_id: str
    places: int


class Turns:
    """A fair queue for one right. Nobody overtakes: who waits for the turn alone keeps those behind from joining the ones that have it.

    max_queue: requests that may wait; 0 means no bound. queue_timeout_s: longest wait; 0 means for ever. Operators are bound by neither.
    """

    def __init__(self, max_queue: int, queue_timeout_s: float, events: EventLog | None = None) -> None:
        self._events = EventLog(None) if events is None else events
        self._max_queue = max_queue
        self._queue_timeout_s = queue_timeout_s
        self._requests: deque[_Waiter] = deque()
        self._operators: deque[_Waiter] = deque()
        self._holders = 0
        self._share: _Share | None = None
        self._closed: ServerDraining | None = None
        self._wanted = asyncio.Event()
        self._wake: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Requests that really wait (operators are not counted)."""
        return len(self._requests)

    @property
    def is_taken(self) -> bool:
        """For reports only; never a reason to act."""
        return self._holders > 0

    @property
    def is_shared(self) -> bool:
        """Whether more than one have the turn."""
        return self._holders > 1

    def share(self, model_id: str, places: int) -> None:
        """Let others join the one that has the turn, for the same model: its worker is loaded and takes so many requests.

        Without effect when the turn is shared already, or is to end.
        """
        if self._holders == 1 and places > 1:
            self._share = _Share(model_id, places)
            self._events.write("turn_shared", model=model_id, places=places)
            self._grant()

    def claim(self) -> bool:
        """Make the turn exclusive for a holder that is to change the worker; False when others have it too, and then nobody joins any more.

        One that got False must release, and take the turn again.
        """
        self._share = None
        self._events.write("turn_claimed")
        return self._holders == 1

    @property
    def max_queue(self) -> int:
        """The bound of waiting requests; 0 means none."""
        return self._max_queue

    def deadline(self) -> float | None:
        """Return until when a request that comes now may wait, by the loop's clock; None means for ever."""
        return asyncio.get_running_loop().time() + self._queue_timeout_s if self._queue_timeout_s else None

    def next_wants(self, model_id: str) -> bool:
        """Say whether the next turn goes to a request for this model (and not to an operator)."""
        first = next(self._ready(), None)
        return first is not None and first.model_id == model_id

    def wants_no_other(self, model_id: str) -> bool:
        """Say whether nobody waits, or the next turn goes to a request for this model."""
        return next(self._ready(), None) is None or self.next_wants(model_id)

    async def take_for_request(
        self,
        model_id: str,
        held_back_s: Callable[[], float] = _never,
        deadline: float | None = None,
        *,
        is_return: bool = False,
    ) -> None:
        """Wait for the turn. Raises ServerBusy when the queue is full or the wait too long, ServerDraining after `close`.

        The caller must `release`, on every path, once this has returned. Cancelled while waiting: the place is free at once.

        held_back_s: for how long this request may not have the turn yet; 0 when it may. Must not block.
        deadline: as `deadline()` gives it, which is also meant by None. is_return: it had the turn and comes back, ahead of all who wait.
        """
        if self._closed is not None:
            raise self._closed

        is_full = 0 < self._max_queue <= len(self._requests)

        if is_full and not is_return and (self._holders or held_back_s() > 0):
            raise ServerBusy(f"{len(self._requests)} requests wait already (--max-queue {self._max_queue})")

        waiter = _Waiter(model_id, held_back_s, asyncio.get_running_loop().create_future())
        self._requests.appendleft(waiter) if is_return else self._requests.append(waiter)
        await self._wait(self._requests, waiter, self.deadline() if deadline is None else deadline)

    async def wait_wanted(self) -> None:
        """Wait until somebody waits for the turn, request or operator."""
        while not self._operators and not self._requests:
            self._wanted.clear()
            await self._wanted.wait()

    async def take_for_operator(self) -> None:
        """Wait for the turn ahead of all waiting requests, without a bound."""
        waiter = _Waiter(None, _never, asyncio.get_running_loop().create_future())
        self._operators.append(waiter)
        await self._wait(self._operators, waiter, None)

    def take_if_free(self) -> bool:
        """Take the turn when nobody has it; return whether it was taken. It must then be released."""
        if self._holders:
            return False

        self._take(None)
        return True

    async def _wait(self, queue: deque[_Waiter], waiter: _Waiter, deadline: float | None) -> None:
        self._grant()

        if not waiter.granted.done():
            self._wanted.set()

        try:
            async with asyncio.timeout_at(deadline):
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
            # It may have kept those behind it from joining.
            self._grant()

    def release(self) -> None:
        """One of those that have the turn is done with it: the next that still waits gets it, as soon as it may."""
        self._events.write("turn_released")
        self._holders -= 1

        if self._holders == 0:
            self._share = None

        self._grant()

    def _grant(self) -> None:
        while (waiter := next(self._ready(), None)) is not None:
            if not self._may_have(waiter):
                return

            self._take(waiter.model_id)
            (self._requests if waiter in self._requests else self._operators).remove(waiter)
            waiter.granted.set_result(None)

        if not self._holders:
            self._wake_later()

    def _may_have(self, waiter: _Waiter) -> bool:
        if not self._holders:
            return True

        share = self._share
        return share is not None and waiter.model_id == share.model_id and self._holders < share.places

    def _take(self, model_id: str | None) -> None:
        self._holders += 1
        self._events.write("turn_given", model=model_id)

    def _ready(self) -> Iterator[_Waiter]:
        """Yield those that may have the turn, in the order in which they get it. One that was cancelled a moment ago still stands here."""
        for waiter in [*self._operators, *self._requests]:
            if not waiter.granted.done() and waiter.held_back_s() <= 0:
                yield waiter

    def _wake_later(self) -> None:
        """Look again when the first of those that are held back may go on."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

        waits = [waiter.held_back_s() for waiter in self._requests if not waiter.granted.done()]

        if (wait_s := min(waits, default=math.inf)) < math.inf:
            self._wake = asyncio.get_running_loop().call_later(wait_s, self._grant)

    def close(self, error: ServerDraining | None = None) -> None:
        """Refuse new requests, and those that wait, in their order. Operators may still come. error: what they are told."""
        self._closed = error or ServerDraining("the server is draining and takes no new request")

        while self._requests:
            waiter = self._requests.popleft()

            if not waiter.granted.done():
                waiter.granted.set_exception(self._closed)
