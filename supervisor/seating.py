"""How requests come to their turns: in order of arrival, but not while their model may not be started. Used by `ModelHost` only.

In the event loop's thread. A wait is bounded by the request's own deadline.
"""

from collections.abc import Callable

from supervisor.errors import ModelUnavailable
from supervisor.loader import Loader
from supervisor.restart_policy import Allowed, Answer, Open, WaitFor
from supervisor.seat import Seat
from supervisor.settings import ModelRef
from supervisor.turns import Turns


class Seating:
    """Gives seats and turns.

    is_resident: whether a model needs no start. on_left: called when a request left without its turn, or was refused it.
    """

    def __init__(
        self, turns: Turns, loader: Loader, is_resident: Callable[[ModelRef], bool], on_left: Callable[[], None]
    ) -> None:
        self._turns = turns
        self._loader = loader
        self._is_resident = is_resident
        self._on_left = on_left

    async def take(self, model: ModelRef, tokens: int) -> Seat:
        """Return a seat that has the turn. Raises ModelUnavailable at once, else as `Turns.take_for_request` does."""
        seat = Seat(model, self._turns.deadline(), tokens)

        if not self._is_resident(model):
            refuse_if_open(self._loader.look(seat))

        await self._take_turn(seat, is_return=False)
        return seat

    async def may_begin(self, answer: Answer, seat: Seat) -> bool:
        """Say whether the load may begin. If it may not yet, others have the turn for that time; all may be different after it."""
        refuse_if_open(answer)

        if isinstance(answer, Allowed):
            return True

        seat.has_turn = False
        self._turns.release()
        await self._take_turn(seat, is_return=True)
        return False

    async def alone(self, seat: Seat) -> bool:
        """Say whether this request has the turn for itself, as one must that changes the worker; else it has waited until it does.

        All may be different after that wait.
        """
        if self._turns.claim():
            return True

        seat.has_turn = False
        self._turns.release()
        await self._take_turn(seat, is_return=True)
        return False

    def share(self, model: ModelRef, places: int) -> None:
        """The worker of this model is loaded and takes so many requests: let others join."""
        self._turns.share(model.model_id, places)

    async def _take_turn(self, seat: Seat, *, is_return: bool) -> None:
        try:
            await self._turns.take_for_request(
                seat.model.model_id, lambda: self._held_back_s(seat), seat.deadline, is_return=is_return
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
        return answer.seconds if isinstance(answer, WaitFor) else 0.0


def refuse_if_open(answer: Answer) -> None:
    """Raise ModelUnavailable behind an open breaker."""
    if isinstance(answer, Open):
        raise ModelUnavailable(answer.reason, answer.retry_after_s)
