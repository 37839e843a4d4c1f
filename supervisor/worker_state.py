"""The states of one worker, and the only ways from one to the next. Pure.

A worker is one process with one model for life: it never restarts. A recycle makes a new worker with a new number.
"""

from collections import deque
from enum import StrEnum

# Steps that are kept, to be told when something happens that has no place.
_STORY_LENGTH = 16


class WorkerState(StrEnum):
    """Where a worker is in its life. EXITED is final."""

    STARTING = "starting"  # spawned, Hello not yet said
    LOADING = "loading"  # Hello said, the model is being read
    READY = "ready"  # loaded and idle
    GENERATING = "generating"  # works on one request or several
    STOPPING = "stopping"  # told to end, not yet gone
    EXITED = "exited"  # reaped


class WorkerEvent(StrEnum):
    """What can happen to a worker."""

    SAID_HELLO = "said_hello"
    LOADED = "loaded"
    STARTED_REQUEST = "started_request"
    FINISHED_REQUEST = "finished_request"  # the last one that was open
    ASKED_TO_STOP = "asked_to_stop"
    PROCESS_EXITED = "process_exited"


_S = WorkerState
_E = WorkerEvent

TRANSITIONS: dict[tuple[WorkerState, WorkerEvent], WorkerState] = {
    (_S.STARTING, _E.SAID_HELLO): _S.LOADING,
    (_S.LOADING, _E.LOADED): _S.READY,
    (_S.READY, _E.STARTED_REQUEST): _S.GENERATING,
    # One more; whether it may be is the turns' to know.
    (_S.GENERATING, _E.STARTED_REQUEST): _S.GENERATING,
    (_S.GENERATING, _E.FINISHED_REQUEST): _S.READY,
    (_S.STARTING, _E.ASKED_TO_STOP): _S.STOPPING,
    (_S.LOADING, _E.ASKED_TO_STOP): _S.STOPPING,
    (_S.READY, _E.ASKED_TO_STOP): _S.STOPPING,
    (_S.GENERATING, _E.ASKED_TO_STOP): _S.STOPPING,
    # Told twice is told once: an unload and the end of the server may both ask.
    (_S.STOPPING, _E.ASKED_TO_STOP): _S.STOPPING,
    (_S.STARTING, _E.PROCESS_EXITED): _S.EXITED,
    (_S.LOADING, _E.PROCESS_EXITED): _S.EXITED,
    (_S.READY, _E.PROCESS_EXITED): _S.EXITED,
    (_S.GENERATING, _E.PROCESS_EXITED): _S.EXITED,
    (_S.STOPPING, _E.PROCESS_EXITED): _S.EXITED,
}


class InvalidTransition(Exception):
    """A bug of ours: something happened that the table does not allow. Carries the worker's story."""

    def __init__(self, state: WorkerState, event: WorkerEvent, story: tuple[str, ...]) -> None:
        super().__init__(f"event '{event}' is not allowed in state '{state}'; before: {', '.join(story) or 'nothing'}")


def next_state(state: WorkerState, event: WorkerEvent, story: tuple[str, ...] = ()) -> WorkerState:
    """Return the state after the event. Raises InvalidTransition for a pair that the table does not hold."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise InvalidTransition(state, event, story) from None


class WorkerLife:
    """Where one worker is, and the last steps that led there."""

    def __init__(self) -> None:
        self.state = WorkerState.STARTING
        self._story: deque[str] = deque(maxlen=_STORY_LENGTH)

    @property
    def is_ending(self) -> bool:
        """Whether it is being stopped, or is gone."""
        return self.state in (WorkerState.STOPPING, WorkerState.EXITED)

    def advance(self, event: WorkerEvent) -> None:
        """Take in an event. Raises InvalidTransition; the state is as before then."""
        before = self.state
        self.state = next_state(before, event, tuple(self._story))
        self._story.append(f"{before}>{event}")
