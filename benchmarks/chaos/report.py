"""What a run found, as one JSON line, and whether it is good."""

import json
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.chaos.explain import (
    Outcome,
    Rules,
    failed_without_a_cause,
    next_answers_s,
    refused_without_a_cause,
)
from benchmarks.chaos.load import LEFT, LOST, Seen
from benchmarks.chaos.observer import ANSWERED, DOUBLE
from benchmarks.chaos.replay import Event, Kill, Replay

_EXPLAINED = frozenset(
    (
        ANSWERED,
        LEFT,
        LOST,
        "engine_crashed",
        "engine_unresponsive",
        "model_load_failed",
        "server_busy",
        "model_unavailable",
    )
)
_MOST_EXAMPLES = 12
# Descriptors of the front when it rests: before the load and after it.
_MORE_DESCRIPTORS = 2
# What an interpreter's memory may move by in a run of minutes; a leak of 1 KiB for each request shows in 10,000 requests.
_MORE_RSS_MB = 6.0


@dataclass(slots=True)
class Samples:
    """Figures of the front. rest_descriptors: before and after the load. workers: most worker processes that lived at once."""

    rest_descriptors: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    rss_mb: list[float] = field(default_factory=list)
    workers: int = 0

    def rss_first_and_last(self) -> tuple[float, float]:
        """Return the medians of an early part, after the first tenth, and of the last part; zeros without samples."""
        count = len(self.rss_mb)
        early, late = self.rss_mb[count // 10 : 3 * count // 10], self.rss_mb[8 * count // 10 :]
        return statistics.median(early or self.rss_mb or [0]), statistics.median(late or self.rss_mb or [0])

    def descriptors_first_last_most(self) -> tuple[int, int, int]:
        """Return how many there were at rest before the load, at rest after it, and at most; zeros without samples."""
        rest = self.rest_descriptors or [0]
        return rest[0], rest[-1], max(self.descriptors, default=0)


@dataclass(frozen=True, slots=True)
class Run:
    """All that was seen. faults: of the other requests, and of the end of the server."""

    seed: int
    worker: str
    seconds: float
    seen: Seen
    kills: Sequence[Kill]
    unloads: int
    health_s: Sequence[float]
    samples: Samples
    events: Sequence[Event]
    faults: Sequence[str]
    rules: Rules
    most_connections: int


class Report:
    """Judges a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._replay = Replay(run.kills).run(run.events)
        lives, outcomes = self._replay.workers, run.seen.outcomes
        self._lost = [outcome for outcome in outcomes if outcome.outcome == LOST]
        self._queued_lost = failed_without_a_cause(outcomes, lives, run.rules)
        self._refused = list(refused_without_a_cause(outcomes, lives, run.rules))
        self._others = [outcome for outcome in outcomes if outcome.outcome not in _EXPLAINED]
        self._next_answers_s = next_answers_s(run.kills, lives, outcomes)
        self._complaints = self._find_complaints()

    @property
    def is_good(self) -> bool:
        """The verdict."""
        return not self._complaints and bool(self._run.seen.outcomes)

    def line(self) -> str:
        """Return everything as one line of JSON."""
        run, complaints = self._run, self._complaints
        rss_first, rss_last = run.samples.rss_first_and_last()
        fd_first, fd_last, fd_most = run.samples.descriptors_first_last_most()
        fields = {
            "claim": "chaos",
            "worker": run.worker,
            "seed": run.seed,
            "seconds": round(run.seconds, 1),
            "requests": len(run.seen.outcomes),
            "kills": dict(Counter(kill.signal for kill in run.kills)),
            "unloads": run.unloads,
            "workers": len(self._replay.workers),
            "classes": dict(Counter(outcome.outcome for outcome in run.seen.outcomes)),
            "lost": len(self._lost),
            "queued_lost": len(self._queued_lost),
            "double_terminal": sum(fault in DOUBLE for fault, _ in run.seen.faults),
            "next_answer_p50_ms": _milliseconds(self._next_answers_s, 50),
            "next_answer_p99_ms": _milliseconds(self._next_answers_s, 99),
            "health_p99_ms": _milliseconds(run.health_s, 99),
            "fd_first": fd_first,
            "fd_last": fd_last,
            "fd_max": fd_most,
            "rss_first_mb": round(rss_first, 1),
            "rss_last_mb": round(rss_last, 1),
            "violations": len(complaints),
            "examples": complaints[:_MOST_EXAMPLES],
            "verdict": "good" if self.is_good else "bad",
        }
        return json.dumps(fields)

    def _find_complaints(self) -> list[str]:
        run = self._run
        return [
            *_told("lost", self._lost),
            *_told("failed without a death of its own", self._queued_lost),
            *_told("refused without a cause", self._refused),
            *_told("an error that nothing leads to", self._others),
            *(f"{fault}: {seen}" for fault, seen in run.seen.faults),
            *self._replay.violations,
            *run.faults,
            *self._of_figures(),
        ]

    def _of_figures(self) -> list[str]:
        run = self._run
        samples = run.samples
        first, last, most = samples.descriptors_first_last_most()
        rss_first, rss_last = samples.rss_first_and_last()
        answered = sum(outcome.outcome == ANSWERED for outcome in run.seen.outcomes)
        checks = {
            f"{samples.workers} worker processes lived at once": samples.workers > 1,
            f"{answered} answers, but the workers finished {self._replay.finished}": answered > self._replay.finished,
            f"descriptors at rest grew from {first} to {last}": last > first + _MORE_DESCRIPTORS,
            f"descriptors under load reached {most}": most > first + run.most_connections,
            f"the front's memory grew from {rss_first:.1f} to {rss_last:.1f} MiB": rss_last - rss_first > _MORE_RSS_MB,
        }
        return [text for text, is_bad in checks.items() if is_bad]


def _told(what: str, outcomes: Sequence[Outcome]) -> list[str]:
    return [f"{what}: {outcome.told()}" for outcome in outcomes]


def _milliseconds(seconds: Sequence[float], percent: int) -> float | None:
    """Return a percentile by rank; None without figures."""
    if not seconds:
        return None

    rank = min(len(seconds) * percent // 100, len(seconds) - 1)
    return round(1000 * sorted(seconds)[rank], 1)
