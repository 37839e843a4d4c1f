"""How requests come to their turns: in order of arrival, but not while their model may not be started. Used by `ModelHost` only.

A model may not be started in a back-off, and not while another server loads. Those who want the resident model go on being served then;
the others keep their places, ahead of all who came later.

In the event loop's thread. A wait is bounded by the request's own deadline.
"""

import asyncio
import logging
import math
from collections.abc import Callable

from supervisor.errors import ModelUnavailable, ServerBusy
from supervisor.held_record import is_held
from supervisor.holder import find_lock_holder
from supervisor.load_lock import RECORD_NAME
from supervisor.load_permit import lock_refusal
from supervisor.loader import Loader
from supervisor.restart_policy import Allowed, Answer, Open, WaitFor
from supervisor.seat import Seat
from supervisor.settings import LoadLockSettings, ModelRef
from supervisor.turns import Turns

logger = logging.getLogger(__name__)

# Another process that lets go gives no event.
LOCK_POLL_S = 0.05


class Seating:
    """Gives seats and turns.

    lock: how long another server's load is waited for.
    is_resident: whether a model needs no start. on_left: called when a request left without its turn, or was refused it.
    """

    def __init__(
        self,
        turns: Turns,
        loader: Loader,
        lock: LoadLockSettings,
        is_resident: Callable[[ModelRef], bool],
        on_left: Callable[[], None],
    ) -> None:
        self._turns = turns
        self._lock = lock
        # When the lock is tried again that another server was seen to have, by the loop's clock; None when none was.
        self._lock_tried_at: float | None = None
        self._loader = loader
        self._is_resident = is_resident
        self._on_left = on_left

    async def take(self, model: ModelRef, tokens: int) -> Seat:
        """Return a seat that has the turn. Raises ModelUnavailable at once, else as `Turns.take_for_request` does."""
        seat = Seat(model, self._turns.deadline(), tokens)

        if not self._is_resident(model):
            refuse_if_open(self._loader.look(seat))

        await self._take_turn(seat, seat.deadline, is_return=False)
        return seat

    async def may_begin(self, answer: Answer, seat: Seat) -> bool:
        """Say whether the load may begin. If it may not yet, others have the turn for that time; all may be different after it."""
        refuse_if_open(answer)

        if isinstance(answer, Allowed):
            return True

        await self._give_way(seat, seat.deadline)
        return False

    async def alone(self, seat: Seat) -> bool:
        """Say whether this request has the turn for itself, as one must that changes the worker; else it has waited until it does.

        All may be different after that wait.
        """
        if self._turns.claim():
            return True

        await self._give_way(seat, seat.deadline)
        return False

    def share(self, model: ModelRef, places: int) -> None:
        """The worker of this model is loaded and takes so many requests: let others join."""
        self._turns.share(model.model_id, places)

    async def wait_for_lock(self, seat: Seat) -> None:
        """Let others have the turn for a moment, since another server loads; then it may be tried again. All may be different after it.

        Raises InsufficientResources when that server has kept the lock for too long.
        """
        now = asyncio.get_running_loop().time()

        if seat.lock_deadline is None:
            seat.lock_deadline = now + self._lock.timeout_s
            logger.info("[load lock] another process loads a model; '%s' waits for it", seat.model.model_id)

        if now >= seat.lock_deadline:
            raise lock_refusal(self._lock, seat.model.model_id)

        self._lock_tried_at = now + LOCK_POLL_S

        try:
            await self._give_way(seat, min(seat.lock_deadline, seat.deadline or math.inf))
        except ServerBusy:
            await self._after_the_wait(seat)

    async def _after_the_wait(self, seat: Seat) -> None:
        """The time is over without a turn: for the other server, or because our own resident model was busy all the time."""
        state_dir = self._lock.state_dir

        if state_dir is not None and find_lock_holder(state_dir) is not None:
            raise lock_refusal(self._lock, seat.model.model_id)

        # The lock is tried once more, in the turn.
        await self._take_turn(seat, seat.deadline, is_return=True)

    async def _give_way(self, seat: Seat, deadline: float | None) -> None:
        seat.has_turn = False
        self._turns.release()
        await self._take_turn(seat, deadline, is_return=True)

    async def _take_turn(self, seat: Seat, deadline: float | None, *, is_return: bool) -> None:
        try:
            await self._turns.take_for_request(
                seat.model.model_id, lambda: self._held_back_s(seat), deadline, is_return=is_return
            )
        except BaseException:
            self._on_left()
            raise

        seat.has_turn = True

    def _held_back_s(self, seat: Seat) -> float:
        """Return for how long the model may not be started. One that may not be started at all needs the turn to be told so."""
        if self._is_resident(seat.model):
            return 0.0

        answer = self._loader.look(seat)
        backoff_s = answer.seconds if isinstance(answer, WaitFor) else 0.0
        return max(backoff_s, self._lock_wait_s(seat))

    def _lock_wait_s(self, seat: Seat) -> float:
        """Return for how long nobody need try to load, since another server does.

        A look at its record comes first: to try takes the turn alone, and so costs those who use the resident model together.
        """
        now = asyncio.get_running_loop().time()

        if self._lock_tried_at is None or self._lock.state_dir is None:
            return 0.0

        if seat.lock_deadline is not None and now >= seat.lock_deadline:
            # It needs the turn to try once more, or to be told.
            return 0.0

        if now >= self._lock_tried_at:
            self._lock_tried_at = now + LOCK_POLL_S if is_held(self._lock.state_dir / RECORD_NAME) else None

        return self._lock_tried_at - now if self._lock_tried_at is not None else 0.0


def refuse_if_open(answer: Answer) -> None:
    """Raise ModelUnavailable behind an open breaker."""
    if isinstance(answer, Open):
        raise ModelUnavailable(answer.reason, answer.retry_after_s)
