"""Replays a server's log of events (`supervisor.event_log`) and says what should never have been. Pure.

- A turn is given to one at a time, or to as many for one model as its holder has opened it for, and handed on by nobody who has none.
- At most one worker: the next is started after the one before is reaped, by one who is alone with the turn and wants its model.
- A request begins on a worker that is loaded and has room, in a turn of its model, and ends once: by a word of the worker or by its end.
- A worker that ended at fault was hit by one of our signals; one that was ended had to leave for another model, for an operator's command,
  or while it loaded.
- At the end of the server every worker is reaped, every request has its end and the turn is free.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Event: TypeAlias = Mapping[str, Any]  # lines of JSON, checked when they are used
# A process that runs on another core is not gone in the very moment of its signal.
_DYING_S = 0.0005
# A signal that leaves a core goes to one thread; the others work on until that thread is given a core of the machine.
_DYING_WITH_A_CORE_S = 0.05
_WITH_A_CORE = ("SIGSEGV", "SIGABRT")


@dataclass(frozen=True, slots=True)
class Kill:
    """A signal of ours, sent at some moment from `at` to `sent_at`: on a busy machine the sender may itself be held up between them."""

    at: float
    sent_at: float
    pid: int
    signal: str


@dataclass(slots=True)
class WorkerLife:
    """What the log says of one worker. Times: None before they come.

    parallel: requests that it takes at once. open_requests: those without an end, and when they were begun. last_request: the newest.
    was_working_on: how many were open when it was hit, or ended by the server.
    """

    number: int
    model: str
    pid: int
    started_at: float
    loaded_at: float | None = None
    ended_at: float | None = None
    gone_at: float | None = None
    is_fault: bool = False
    parallel: int = 1
    open_requests: dict[int, float] = field(default_factory=dict)
    last_request: int = 0
    was_working_on: int = 0

    @property
    def was_loading(self) -> bool:
        """Whether it ended before its model was loaded."""
        return self.loaded_at is None


class Replay:
    """Takes the events in order; `finish` after the last."""

    def __init__(self, kills: Sequence[Kill]) -> None:
        self._kills = kills
        self._workers: dict[int, WorkerLife] = {}
        self._failed_spawns: set[int] = set()
        # The models of those that have the turn; None is an operator.
        self._holders: list[str | None] = []
        self._places = 1
        self.violations: list[str] = []
        self.finished = 0

    @property
    def workers(self) -> list[WorkerLife]:
        """All workers in the order of their start."""
        return list(self._workers.values())

    def run(self, events: Iterable[Event]) -> "Replay":
        """Take them all, and judge the end."""
        last_at = 0.0

        for event in events:
            if event["at"] < last_at:
                self._complain(event, "it is older than the one before")

            last_at = event["at"]
            self._take(event)

        self._finish()
        return self

    def _complain(self, event: Event, text: str) -> None:
        self.violations.append(f"{text}: {dict(event)}")

    def _take(self, event: Event) -> None:
        match event["event"]:
            case "turn_given":
                self._on_turn_given(event)
            case "turn_shared":
                self._on_turn_shared(event)
            case "turn_claimed":
                self._places = 1
            case "turn_released":
                self._on_turn_released(event)
            case "started":
                self._on_started(event)
            case "load_failed" if event["worker"] not in self._workers:
                # The system refused the process: there is nothing that could be left behind.
                self._failed_spawns.add(event["worker"])
            case "loaded" | "load_failed" | "request_begun" | "request_ended" | "ended" | "gone" as kind:
                self._on_worker(event, kind)
            case _:
                self._complain(event, "an event that nobody knows")

    def _on_turn_given(self, event: Event) -> None:
        if self._holders and (len(self._holders) >= self._places or self._holders[0] != event["model"]):
            self._complain(event, f"the turn is given to two: {self._told_holders()} has it")

        self._holders.append(event["model"])

    def _on_turn_shared(self, event: Event) -> None:
        if self._holders != [event["model"]]:
            self._complain(event, f"a turn is shared that {self._told_holders()} has")

        self._places = event["places"]

    def _on_turn_released(self, event: Event) -> None:
        if not self._holders:
            self._complain(event, "a turn is handed on that nobody has")

        self._holders = self._holders[1:]
        self._places = self._places if self._holders else 1

    def _on_started(self, event: Event) -> None:
        residents = [life.number for life in self._workers.values() if life.gone_at is None]
        number = event["worker"]

        if residents:
            self._complain(event, f"two residents: worker {residents} is not reaped")

        if number <= max(self._workers, default=0):
            self._complain(event, "a number that was there before")

        if self._holders != [event["model"]]:
            self._complain(event, f"a start in the turn of {self._told_holders()}")

        self._workers[number] = WorkerLife(number, event["model"], event["pid"], event["at"])

    def _on_worker(self, event: Event, kind: str) -> None:
        life = self._workers.get(event["worker"])

        if life is None:
            self._complain(event, "a worker that was never started")
        elif kind == "gone":
            self._on_gone(event, life)
        elif life.ended_at is not None:
            self._complain(event, "a worker that has ended")
        elif kind == "loaded":
            self._on_loaded(event, life)
        elif kind == "request_begun":
            self._on_begun(event, life)
        elif kind == "request_ended":
            self._on_request_ended(event, life)
        elif kind == "ended":
            self._on_ended(event, life)

    def _on_loaded(self, event: Event, life: WorkerLife) -> None:
        if life.loaded_at is not None:
            self._complain(event, "loaded twice")

        life.loaded_at, life.parallel = event["at"], event["parallel"]

    def _on_begun(self, event: Event, life: WorkerLife) -> None:
        if life.loaded_at is None or life.gone_at is not None:
            self._complain(event, "a request on a worker that is not loaded, or gone")

        if len(life.open_requests) >= min(life.parallel, len(self._holders) or 1):
            self._complain(event, f"requests {[*life.open_requests]} have no end yet")

        if event["request"] <= life.last_request:
            self._complain(event, f"a request that is not newer than {life.last_request}")

        if life.model not in self._holders:
            self._complain(event, f"a request in the turn of {self._told_holders()}")

        life.last_request = event["request"]
        life.open_requests[event["request"]] = event["at"]

    def _on_request_ended(self, event: Event, life: WorkerLife) -> None:
        if life.open_requests.pop(event["request"], None) is None:
            self._complain(event, "a second end, or one of a request that was never begun")

        self.finished += event["end"].startswith("finished:")

    def _on_ended(self, event: Event, life: WorkerLife) -> None:
        life.ended_at, life.is_fault = event["at"], event["is_fault"]
        hits = [kill for kill in self._kills if kill.pid == life.pid and kill.at <= life.ended_at]
        life.was_working_on = sum(not _had_died_before(begun_at, hits) for begun_at in life.open_requests.values())
        life.open_requests.clear()

        if hits:
            return

        if life.is_fault:
            self._complain(event, "a worker ended that nobody touched")
        elif (len(self._holders) != 1 or self._holders == [life.model]) and not life.was_loading:
            self._complain(event, f"a worker was ended without a cause, in the turn of {self._told_holders()}")

    def _on_gone(self, event: Event, life: WorkerLife) -> None:
        if life.gone_at is not None:
            self._complain(event, "reaped twice")

        life.gone_at = event["at"]

    def _finish(self) -> None:
        for life in self._workers.values():
            if life.gone_at is None or life.ended_at is None:
                self.violations.append(f"worker {life.number} (process {life.pid}) outlived the server")

            for request in life.open_requests:
                self.violations.append(f"request {request} of worker {life.number} has no end")

        if self._holders:
            self.violations.append(f"{self._told_holders()} still has the turn at the end")

    def _told_holders(self) -> str:
        return ", ".join("an operator" if model is None else f"'{model}'" for model in self._holders) or "nobody"


def _had_died_before(at: float, hits: Sequence[Kill]) -> bool:
    """Say whether a signal had ended it by then. One that only stops it is noticed by the request that is given to it."""
    is_stopped = any(kill.signal == "SIGSTOP" for kill in hits)
    return not is_stopped and any(kill.sent_at + _dying_s(kill) < at for kill in hits)


def _dying_s(kill: Kill) -> float:
    return _DYING_WITH_A_CORE_S if kill.signal in _WITH_A_CORE else _DYING_S
