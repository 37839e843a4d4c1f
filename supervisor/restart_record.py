"""What happened to the workers of one model, and what follows from it. Used by `supervisor.restart_policy` only. Pure."""

from collections import deque
from enum import StrEnum

from supervisor.restart_settings import RestartSettings


class Phase(StrEnum):
    """Where the breaker of a model is."""

    CLOSED = "closed"  # loads may begin, after the back-off
    OPEN = "open"  # none may begin until `open_until`; then one may
    PROBING = "probing"  # that one has begun, and has not answered a request yet
    BAD_FOLDER = "bad_folder"  # none may begin until the folder changes


class ModelRecord:
    """The record of one model. Times come from the caller, from one monotonic clock.

    reason: the last fault, for a client. open_until: has a meaning in phase OPEN. bad_mark: mark of the folder that was found bad.
    """

    def __init__(self, settings: RestartSettings) -> None:
        self._settings = settings
        self._begun_mark = ""
        self._loaded_at: float | None = None
        self._has_answered = False
        self._forget()

    def _forget(self) -> None:
        self.phase = Phase.CLOSED
        self.reason = ""
        self.not_before = 0.0
        self.open_until = 0.0
        self.bad_mark = ""
        self._faults = 0
        self._last_fault_at = 0.0
        self._openings = 0
        self._failed_loads = 0
        self._deaths: deque[float] = deque()

    def forget_if_sound(self, now: float) -> None:
        """Forget all faults when the worker that runs has proved itself."""
        if not self._has_answered or self._loaded_at is None:
            return

        if now - self._loaded_at >= self._settings.stable_s or now - self._last_fault_at >= self._settings.stale_s:
            self._forget()

    def begin_load(self, mark: str) -> None:
        """A load begins, which the phase allows."""
        self._begun_mark = mark
        self._loaded_at = None
        self._has_answered = False

        match self.phase:
            case Phase.OPEN:
                self.phase = Phase.PROBING
            case Phase.BAD_FOLDER:
                # Changed by now. The back-off stays: a load that itself leaves a file in the folder must not go round without end.
                self.phase = Phase.CLOSED
            case Phase.CLOSED | Phase.PROBING:
                pass

    def on_loaded(self, now: float) -> None:
        """The load came to its end."""
        self._loaded_at = now
        self._failed_loads = 0

        if self.bad_mark:
            # The folder was repaired: what it did before counts no more.
            self._forget()

    def on_completed(self, now: float) -> None:
        """A request was answered to its end."""
        self._has_answered = True

        if self.phase is Phase.PROBING:
            self.phase = Phase.CLOSED

        self.forget_if_sound(now)

    def on_stopped(self, now: float) -> None:
        """The worker was ended on purpose. A try that came to no result leaves the breaker as it was: the next one may try."""
        self.forget_if_sound(now)
        self._loaded_at = None

        if self.phase is Phase.PROBING:
            self.phase = Phase.OPEN

    def on_bad_folder(self, now: float, chance: float, reason: str) -> None:
        """The load failed for a reason that lies in the folder."""
        self._note_fault(now, chance, reason)
        self.phase = Phase.BAD_FOLDER
        self._openings = 0
        self._failed_loads = 0
        self._deaths.clear()
        self.bad_mark = self._begun_mark

    def on_load_failed(self, now: float, chance: float, reason: str) -> None:
        """The load failed for another reason."""
        self._failed_loads += 1
        self._count_fault(now, chance, reason)

    def on_load_died(self, now: float, chance: float, reason: str) -> None:
        """The process ended while it loaded."""
        self._deaths.append(now)
        self.on_load_failed(now, chance, reason)

    def on_died(self, now: float, chance: float, reason: str) -> None:
        """The process ended after it had loaded."""
        self.forget_if_sound(now)
        self._deaths.append(now)
        self._count_fault(now, chance, reason)

    def _note_fault(self, now: float, chance: float, reason: str) -> None:
        self._loaded_at = None
        self.reason = reason
        self._faults += 1
        self._last_fault_at = now
        self.not_before = now + self._settings.backoff_s(self._faults, chance)

    def _count_fault(self, now: float, chance: float, reason: str) -> None:
        self._note_fault(now, chance, reason)

        while self._deaths and now - self._deaths[0] > self._settings.death_window_s:
            self._deaths.popleft()

        is_looping = len(self._deaths) >= self._settings.deaths_to_open
        if self.phase is Phase.PROBING or is_looping or self._failed_loads >= self._settings.failed_loads_to_open:
            self._open(now)

    def _open(self, now: float) -> None:
        self._openings += 1
        self.phase = Phase.OPEN
        self.open_until = now + self._settings.open_period_s(self._openings)
        self._deaths.clear()
        self._failed_loads = 0
