"""The table of a worker's states, row by row."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.worker_state import TRANSITIONS, InvalidTransition, WorkerEvent, WorkerState, next_state

S, E = WorkerState, WorkerEvent
# Written out once more on purpose: whoever changes a row changes it here too, and says so.
ALLOWED = {
    S.STARTING: {E.SAID_HELLO: S.LOADING, E.ASKED_TO_STOP: S.STOPPING, E.PROCESS_EXITED: S.EXITED},
    S.LOADING: {E.LOADED: S.READY, E.ASKED_TO_STOP: S.STOPPING, E.PROCESS_EXITED: S.EXITED},
    S.READY: {E.STARTED_REQUEST: S.GENERATING, E.ASKED_TO_STOP: S.STOPPING, E.PROCESS_EXITED: S.EXITED},
    S.GENERATING: {
        E.STARTED_REQUEST: S.GENERATING,
        E.FINISHED_REQUEST: S.READY,
        E.ASKED_TO_STOP: S.STOPPING,
        E.PROCESS_EXITED: S.EXITED,
    },
    S.STOPPING: {E.ASKED_TO_STOP: S.STOPPING, E.PROCESS_EXITED: S.EXITED},
    S.EXITED: {},
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(WorkerState, WorkerEvent)))
def test_every_pair_goes_where_it_should_or_raises(state: WorkerState, event: WorkerEvent) -> None:
    if event in ALLOWED[state]:
        assert next_state(state, event) is ALLOWED[state][event]
    else:
        with pytest.raises(InvalidTransition, match=f"'{event}' is not allowed in state '{state}'"):
            next_state(state, event)


def test_the_table_holds_no_other_row() -> None:
    assert len(TRANSITIONS) == sum(map(len, ALLOWED.values()))


def test_an_invalid_transition_carries_the_story() -> None:
    with pytest.raises(InvalidTransition, match="before: starting>said_hello, loading>loaded"):
        next_state(S.READY, E.LOADED, ("starting>said_hello", "loading>loaded"))

    with pytest.raises(InvalidTransition, match="before: nothing"):
        next_state(S.READY, E.LOADED)


@given(st.lists(st.sampled_from(WorkerEvent), max_size=30))
def test_whatever_happens_the_end_is_final_and_stopping_never_serves_again(events: list[WorkerEvent]) -> None:
    state = S.STARTING
    seen = [state]

    for event in events:
        try:
            state = next_state(state, event)
        except InvalidTransition:
            continue

        seen.append(state)

    after_stop = seen[seen.index(S.STOPPING) :] if S.STOPPING in seen else []
    assert set(after_stop) <= {S.STOPPING, S.EXITED}
    assert seen.count(S.EXITED) <= 1
    assert S.EXITED not in seen[:-1]


def test_every_living_state_ends_when_the_process_does_and_can_be_told_to_stop() -> None:
    for state in set(WorkerState) - {S.EXITED}:
        assert next_state(state, E.PROCESS_EXITED) is S.EXITED
        assert next_state(state, E.ASKED_TO_STOP) is S.STOPPING
