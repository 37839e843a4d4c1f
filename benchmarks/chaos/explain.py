"""Whether every error that a client got had its cause: the observer's outcomes against the deaths of the log. Pure.

A death may fail the requests that ran on that worker, or the one for which it was loaded. An error beyond those is of a request that was
lost although it only waited: those are served by the next worker.
"""

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from benchmarks.chaos.observer import ANSWERED
from benchmarks.chaos.replay import Kill, WorkerLife

CRASHED = "engine_crashed"
UNRESPONSIVE = "engine_unresponsive"
LOAD_FAILED = "model_load_failed"
BUSY = "server_busy"
# A load that dies is tried once more before its request is told.
_DEATHS_OF_A_FAILED_LOAD = 2
# A client that left a moment ago may still be counted in the queue.
_STILL_COUNTED_S = 1.0
_STOP = "SIGSTOP"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one client got. outcome: as in `observer.Reading`, or how the exchange ended without an answer. Times are monotonic.

    text_at: when its first text came; None without any.
    """

    number: int
    model: str
    outcome: str
    sent_at: float
    over_at: float
    text_at: float | None = None

    def told(self) -> str:
        """For people."""
        return f"request {self.number} for {self.model}: {self.outcome} after {self.over_at - self.sent_at:.3f} s"


@dataclass(frozen=True, slots=True)
class Rules:
    """max_queue: of the server. deaths_to_refuse: least deaths of a model for `model_unavailable`; None if it is never to be."""

    max_queue: int
    deaths_to_refuse: int | None


def failed_without_a_cause(outcomes: Sequence[Outcome], lives: Sequence[WorkerLife], rules: Rules) -> list[Outcome]:
    """Return the requests that got an error of the engine and that no death of their own explains."""
    left = [life for life in lives if life.is_fault for _ in range(life.was_working_on or life.was_loading)]
    wanting = [outcome for outcome in outcomes if outcome.outcome in (CRASHED, UNRESPONSIVE, LOAD_FAILED)]
    unexplained = []

    # The first to be told takes the first that fits; later ones could not use what was before they were sent.
    for outcome in sorted(wanting, key=lambda outcome: outcome.over_at):
        fitting = [life for life in left if _fits(outcome, life)]
        # The second try may be one that the server does not make, since the model has failed often.
        is_tried_again = outcome.outcome == LOAD_FAILED and rules.deaths_to_refuse is None
        needed = _DEATHS_OF_A_FAILED_LOAD if is_tried_again else 1

        if len(fitting) < needed:
            unexplained.append(outcome)
            continue

        for life in fitting[:needed]:
            left.remove(life)

    return unexplained


def _fits(outcome: Outcome, life: WorkerLife) -> bool:
    assert life.ended_at is not None
    is_in_time = outcome.sent_at <= life.ended_at <= outcome.over_at
    # A load that dies is told as that, and one that hangs as unresponsive.
    is_of_its_kind = outcome.outcome == UNRESPONSIVE or life.was_loading == (outcome.outcome == LOAD_FAILED)
    return is_in_time and life.model == outcome.model and is_of_its_kind


def refused_without_a_cause(
    outcomes: Sequence[Outcome], lives: Sequence[WorkerLife], rules: Rules
) -> Iterator[Outcome]:
    """Yield the requests that were refused although there was room, or their model had not failed often."""
    others = [outcome for outcome in outcomes if outcome.outcome != BUSY]
    begins, ends = sorted(other.sent_at for other in others), sorted(other.over_at for other in others)

    for outcome in outcomes:
        match outcome.outcome:
            case "server_busy":
                # Those that came before it was told, without those that were over before it came.
                came = bisect.bisect_right(begins, outcome.over_at)
                has_cause = came - bisect.bisect_left(ends, outcome.sent_at - _STILL_COUNTED_S) >= rules.max_queue
            case "model_unavailable":
                has_cause = _has_failed_often(outcome, lives, rules.deaths_to_refuse)
            case _:
                continue

        if not has_cause:
            yield outcome


def _has_failed_often(refused: Outcome, lives: Sequence[WorkerLife], deaths_to_refuse: int | None) -> bool:
    deaths = [
        life
        for life in lives
        if life.is_fault
        and life.model == refused.model
        and life.ended_at is not None
        and life.ended_at <= refused.over_at
    ]
    return deaths_to_refuse is not None and len(deaths) >= deaths_to_refuse


def next_answers_s(kills: Sequence[Kill], lives: Sequence[WorkerLife], outcomes: Sequence[Outcome]) -> list[float]:
    """Return for each signal that ended a worker at once how long it took until the next worker's first text came to a client.

    Where another signal came before that text, it says nothing about the server.
    """
    texts = sorted(o.text_at for o in outcomes if o.outcome == ANSWERED and o.text_at is not None)
    gone_at = {life.pid: life.gone_at for life in lives if life.gone_at is not None}
    found: list[float] = []

    for kill, later in zip_longest(kills, kills[1:]):
        if kill.signal == _STOP or kill.pid not in gone_at:
            continue

        # What the dead worker had said comes to its client before it is reaped.
        place = bisect.bisect(texts, gone_at[kill.pid])

        if place < len(texts) and (later is None or texts[place] < later.at):
            found.append(texts[place] - kill.at)

    return found
