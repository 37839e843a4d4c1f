"""The turns that are being used, and how an operator ends one whose time is over. Used by `ModelHost` only; in the event loop's thread.

A client that does not read keeps its handler, and so its block, for as long as it likes. So a turn that is cut is taken away: the host ends
it in its place, and what the block does later changes nothing.
"""

from collections.abc import Callable

from supervisor.errors import SupervisorError
from supervisor.seat import Seat
from supervisor.settling import Settling
from supervisor.turn import Turn
from supervisor.worker import Worker

# From a cut until a worker that does not stop is killed: a slice, a token, and some more.
CUT_GRACE_S = 2.0


class OpenTurns:
    """Of one host. worker: gives the resident one."""

    def __init__(self, settling: Settling, worker: Callable[[], Worker | None]) -> None:
        self._settling = settling
        self._worker = worker
        # More than one only while the others wait in a back-off, or for another server's load.
        self._seats: dict[Turn, Seat] = {}
        self._cut_error: SupervisorError | None = None
        self._interrupt_error: SupervisorError | None = None
        self._interrupted_model_id: str | None = None

    def add(self, turn: Turn, seat: Seat) -> None:
        """A block begins."""
        self._seats[turn] = seat

    def discard(self, turn: Turn) -> None:
        """It has ended."""
        self._seats.pop(turn, None)

    def raise_if_cut(self) -> None:
        """Raise when the time for what has the turn is over. Asked wherever something long would begin in a turn."""
        error = self._cut_error or self._interrupt_error

        if error is not None:
            raise error

    def cut(self, error: SupervisorError) -> None:
        """End all that is open, and what will be: the server ends."""
        self._cut_error = error
        self._note_model()

        for turn, seat in list(self._seats.items()):
            self._cut(turn, seat, error)

        self._end_load(error)

    def interrupt(self, error: SupervisorError) -> None:
        """End what has the turn, at whatever point it is, so that an operator gets it, who then calls `resume`."""
        self._interrupt_error = error
        self._note_model()

        for turn, seat in list(self._seats.items()):
            if seat.has_turn:
                self._cut(turn, seat, error)

        self._end_load(error)

    def resume(self) -> str | None:
        """An operator has the turn. Returns the id of the model that was interrupted, whose worker may be gone by now; None for none."""
        self._interrupt_error = None
        model_id, self._interrupted_model_id = self._interrupted_model_id, None
        return model_id

    def _cut(self, turn: Turn, seat: Seat, error: SupervisorError) -> None:
        turn.cut(error)

        # One that reloads finds the error on its way.
        if seat.has_turn and not turn.is_reloading:
            seat.has_turn = False
            self._settling.end_turn(turn.stream, seat.model, CUT_GRACE_S)

    def _note_model(self) -> None:
        worker = self._worker()
        # One that another operator is stopping at this moment is that operator's to report.
        is_ours = worker is not None and worker.is_usable and worker.loaded is not None
        self._interrupted_model_id = worker.model.model_id if worker is not None and is_ours else None

    def _end_load(self, error: SupervisorError) -> None:
        worker = self._worker()

        if worker is not None and worker.loaded is None:
            worker.kill(error, is_fault=False)
