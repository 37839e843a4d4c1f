"""The judge of the log: a right life passes, and each thing that must never be is found."""

from typing import Any

import pytest

from benchmarks.chaos.replay import Kill, Replay

PID = 100


def signal_at(at: float, pid: int = PID, signal: str = "SIGKILL") -> Kill:
    return Kill(at, at, pid, signal)


KILL = signal_at(4.5)


def given(model: str | None = "a") -> dict[str, Any]:
    return {"event": "turn_given", "model": model}


def released() -> dict[str, Any]:
    return {"event": "turn_released"}


def started(worker: int = 1, model: str = "a") -> dict[str, Any]:
    return {"event": "started", "worker": worker, "model": model, "pid": PID + worker - 1}


def shared(places: int = 2, model: str = "a") -> dict[str, Any]:
    return {"event": "turn_shared", "model": model, "places": places}


def claimed() -> dict[str, Any]:
    return {"event": "turn_claimed"}


def loaded(worker: int = 1, parallel: int = 1) -> dict[str, Any]:
    return {"event": "loaded", "worker": worker, "parallel": parallel}


def begun(request: int = 1, worker: int = 1) -> dict[str, Any]:
    return {"event": "request_begun", "worker": worker, "request": request}


def finished(request: int = 1, worker: int = 1) -> dict[str, Any]:
    return {"event": "request_ended", "worker": worker, "request": request, "end": "finished:stop"}


def ended(worker: int = 1, *, is_fault: bool = False) -> dict[str, Any]:
    return {"event": "ended", "worker": worker, "is_fault": is_fault, "reason": "r"}


def gone(worker: int = 1) -> dict[str, Any]:
    return {"event": "gone", "worker": worker}


def replay(*events: dict[str, Any], kills: tuple[Kill, ...] = ()) -> Replay:
    """The events, one second apart."""
    return Replay(kills).run({"at": float(at), **event} for at, event in enumerate(events))


UNLOAD = (given(None), gone(), ended(), released())
ANSWER = (given(), started(), loaded(), begun(), finished(), released())


def test_an_answer_and_an_unload_are_right() -> None:
    result = replay(*ANSWER, *UNLOAD)
    assert result.violations == []
    assert (result.finished, len(result.workers)) == (1, 1)
    assert result.workers[0].was_working_on == 0


def test_a_swap_is_right() -> None:
    swap = (given("b"), gone(), ended(), started(2, "b"), loaded(2), begun(worker=2), finished(worker=2), released())
    assert replay(*ANSWER, *swap, given(None), gone(2), ended(2), released()).violations == []


def test_a_kill_and_a_new_start_are_right() -> None:
    events = (given(), started(), loaded(), begun(), gone(), ended(is_fault=True), released())
    again = (given(), started(2), loaded(2), released(), given(None), gone(2), ended(2), released())
    result = replay(*events, *again, kills=(KILL,))
    assert result.violations == []
    assert [life.was_working_on for life in result.workers] == [1, 0]


@pytest.mark.parametrize(
    ("kill", "was_working_on"),
    [
        (signal_at(3.5), 1),
        (signal_at(2.5), 0),
        (signal_at(2.9998), 1),
        (signal_at(2.97, PID, "SIGSEGV"), 1),
        (signal_at(2.9, PID, "SIGABRT"), 0),
        (signal_at(2.5, PID, "SIGSTOP"), 1),
    ],
)
def test_what_is_given_to_a_worker_after_its_signal_was_not_its_work(kill: Kill, was_working_on: int) -> None:
    result = replay(given(), started(), loaded(), begun(), gone(), ended(is_fault=True), released(), kills=(kill,))
    assert result.violations == []
    assert result.workers[0].was_working_on == was_working_on


TOGETHER = (given(), claimed(), started(), loaded(parallel=2), shared(), given(), begun(1), begun(2))


def test_two_at_once_are_right_where_the_turn_is_shared() -> None:
    assert replay(*TOGETHER, finished(2), released(), finished(1), released(), *UNLOAD).violations == []
    dead = replay(*TOGETHER, gone(), ended(is_fault=True), released(), released(), kills=(signal_at(8.5),))
    assert dead.violations == []
    assert dead.workers[0].was_working_on == 2


@pytest.mark.parametrize(
    ("events", "violation"),
    [
        ((*TOGETHER, given()), "given to two"),
        ((*TOGETHER, released(), given("b")), "given to two"),
        ((*TOGETHER, released(), given(None)), "given to two"),
        ((*TOGETHER, claimed(), released(), given()), "given to two"),
        ((*TOGETHER, released(), released(), given(), given()), "given to two"),
        ((*TOGETHER, begun(3)), "no end yet"),
        ((*TOGETHER, shared(3)), "is shared that"),
        ((given(), started(), loaded(), shared(), given(), begun(1), begun(2)), "no end yet"),
        ((*TOGETHER, gone(), ended()), "without a cause"),
        ((given("b"), shared()), "is shared that 'b' has"),
        ((*TOGETHER, finished(1), finished(1)), "a second end"),
        ((*TOGETHER, gone(), ended(is_fault=True), started(2)), "a start in the turn of 'a', 'a'"),
    ],
)
def test_what_several_must_never_do_is_found(events: tuple[dict[str, Any], ...], violation: str) -> None:
    assert any(violation in found for found in replay(*events).violations)


def test_a_load_that_is_given_up_is_right() -> None:
    result = replay(given(), started(), gone(), ended(), released())
    assert result.violations == []
    assert result.workers[0].was_loading


def test_a_process_that_the_system_refused_leaves_nothing() -> None:
    assert replay(given(), {"event": "load_failed", "worker": 1, "code": "other"}, released()).violations == []


@pytest.mark.parametrize(
    ("events", "kills", "violation"),
    [
        ((given(), given("b"), released()), (), "given to two"),
        ((given(), released(), released()), (), "that nobody has"),
        ((*ANSWER, given("b"), started(2, "b"), gone(), ended(), gone(2), ended(2), released()), (), "two residents"),
        ((started(), gone(), ended()), (), "a start in the turn of nobody"),
        ((given("b"), started(), gone(), ended(), released()), (), "a start in the turn of 'b'"),
        ((given(None), started(), gone(), ended(), released()), (), "a start in the turn of an operator"),
        ((*ANSWER, *UNLOAD, given(), started(), gone(), ended(), released()), (), "a number that was there before"),
        ((given(), started(), begun(), finished(), released(), *UNLOAD), (), "not loaded"),
        ((given(), started(), loaded(), loaded(), released(), *UNLOAD), (), "loaded twice"),
        ((given(), started(), loaded(), begun(), begun(2), finished(2), released(), *UNLOAD), (), "no end yet"),
        (
            (given(), started(), loaded(), begun(2), finished(2), begun(2), finished(2), released(), *UNLOAD),
            (),
            "not newer",
        ),
        ((given(), started(), loaded(), begun(), finished(), finished(), released(), *UNLOAD), (), "a second end"),
        ((given(), started(), loaded(), finished(), released(), *UNLOAD), (), "never begun"),
        (
            (given(), started(), loaded(), released(), begun(), finished(), *UNLOAD),
            (),
            "a request in the turn of nobody",
        ),
        ((given(), started(), loaded(), begun(), gone(), ended(is_fault=True), released()), (), "nobody touched"),
        ((given(), started(), loaded(), begun(), gone(), ended(), released()), (), "without a cause"),
        ((*ANSWER, gone(), ended()), (), "without a cause"),
        ((*ANSWER, *UNLOAD, given(None), gone(), released()), (), "reaped twice"),
        ((*ANSWER, *UNLOAD, given(None), ended(), released()), (), "a worker that has ended"),
        ((given(), loaded(), released()), (), "never started"),
        (ANSWER, (), "outlived the server"),
        ((given(), started(), loaded(), begun(), released()), (), "request 1 of worker 1 has no end"),
        ((given(),), (), "still has the turn"),
        ((given(None),), (), "an operator still has the turn"),
        (({"event": "surprise"},), (), "nobody knows"),
        # A signal that came after the end is no cause of it, nor is one for another process.
        (
            (given(), started(), loaded(), begun(), gone(), ended(is_fault=True), released()),
            (signal_at(9.0), signal_at(1.0, PID + 1)),
            "nobody touched",
        ),
    ],
)
def test_what_must_never_be_is_found(
    events: tuple[dict[str, Any], ...], kills: tuple[Kill, ...], violation: str
) -> None:
    assert any(violation in found for found in replay(*events, kills=kills).violations)


def test_time_does_not_go_back() -> None:
    assert "older" in Replay(()).run([{"at": 2.0, **given()}, {"at": 1.0, **released()}]).violations[0]
