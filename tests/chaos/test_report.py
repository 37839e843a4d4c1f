"""The verdict: good for a right run, bad for each thing that must not be, also where only a figure shows it."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.chaos.explain import Outcome, Rules
from benchmarks.chaos.load import LOST, Seen
from benchmarks.chaos.observer import Fault
from benchmarks.chaos.replay import Event
from benchmarks.chaos.report import Report, Run, Samples

EVENTS: list[Event] = [
    {"at": 1.0, "event": "turn_given", "model": "a"},
    {"at": 1.1, "event": "started", "worker": 1, "model": "a", "pid": 100},
    {"at": 1.2, "event": "loaded", "worker": 1, "parallel": 1},
    {"at": 1.3, "event": "request_begun", "worker": 1, "request": 1},
    {"at": 1.4, "event": "request_ended", "worker": 1, "request": 1, "end": "finished:stop"},
    {"at": 1.5, "event": "turn_released"},
    {"at": 1.6, "event": "turn_given", "model": None},
    {"at": 1.7, "event": "gone", "worker": 1},
    {"at": 1.8, "event": "ended", "worker": 1, "is_fault": False, "reason": "r"},
    {"at": 1.9, "event": "turn_released"},
]


def right_run() -> Run:
    return Run(
        seed=1,
        worker="stand-in",
        seconds=2.0,
        seen=Seen(outcomes=[Outcome(1, "a", "answered", 1.0, 1.45, 1.4)]),
        kills=(),
        unloads=1,
        health_s=(0.01,),
        samples=Samples(rest_descriptors=[10, 11], descriptors=[20, 30], rss_mb=[50.0] * 10, workers=1),
        events=EVENTS,
        faults=(),
        rules=Rules(max_queue=8, deaths_to_refuse=None),
        most_connections=24,
    )


def line(run: Run) -> dict[str, Any]:
    found = json.loads(Report(run).line())
    assert isinstance(found, dict)
    return found


def test_a_right_run_is_good() -> None:
    assert Report(right_run()).is_good
    found = line(right_run())
    assert (found["verdict"], found["violations"], found["classes"]) == ("good", 0, {"answered": 1})
    assert (found["fd_first"], found["fd_last"], found["fd_max"]) == (10, 11, 30)


def seen(outcome: str) -> Callable[[Run], Run]:
    """One more request, with this end."""
    return lambda run: replace(run, seen=Seen(outcomes=[*run.seen.outcomes, Outcome(2, "a", outcome, 1.5, 1.6, None)]))


def sampled(**changes: Any) -> Callable[[Run], Run]:
    return lambda run: replace(run, samples=replace(run.samples, **changes))


@pytest.mark.parametrize(
    ("change", "example"),
    [
        (seen(LOST), "lost: request 2"),
        (seen("engine_crashed"), "failed without a death of its own"),
        (seen("server_busy"), "refused without a cause"),
        (seen("model_unavailable"), "refused without a cause"),
        (seen("insufficient_resources"), "an error that nothing leads to"),
        (seen("answered"), "2 answers, but the workers finished 1"),
        (lambda run: replace(run, seen=replace(run.seen, faults=[(Fault.TWO_DONES, "x")])), "two [DONE]: x"),
        (lambda run: replace(run, faults=["left behind: worker process 1"]), "left behind"),
        (lambda run: replace(run, events=EVENTS[:-2]), "outlived the server"),
        (sampled(workers=2), "2 worker processes lived at once"),
        (sampled(rest_descriptors=[10, 13]), "descriptors at rest grew from 10 to 13"),
        (sampled(descriptors=[35]), "descriptors under load reached 35"),
        (sampled(rss_mb=[50.0] * 5 + [57.0] * 5), "memory grew from 50.0 to 57.0 MiB"),
    ],
)
def test_what_must_not_be_is_bad(change: Callable[[Run], Run], example: str) -> None:
    run = change(right_run())
    found = line(run)
    assert any(example in told for told in found["examples"]), found
    assert (Report(run).is_good, found["verdict"]) == (False, "bad")


def test_a_run_without_a_request_proves_nothing() -> None:
    assert not Report(replace(right_run(), seen=Seen())).is_good


def test_a_server_that_was_gone_at_once_is_reported_all_the_same() -> None:
    run = replace(right_run(), samples=Samples(), events=(), seen=Seen(), faults=["the server ended with -9"])
    assert line(run)["examples"] == ["the server ended with -9"]
