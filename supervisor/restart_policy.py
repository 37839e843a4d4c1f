"""Whether a model may be started now, after what happened to its workers before. Pure: the clock is given, nothing blocks or waits.

Asked and told by the one that owns the workers. Each model has a record of its own, so what one model does costs no other anything.

- After a first fault the next request starts the model at once: most faults are single. After the next ones it waits 1, 2, 4 … 60 s.
- Five deaths within 60 s, or three failed loads in a row, open the breaker for 60 s; each time again for twice as long, up to 10 min.
- When that time is over, one real request may try. If its load and its answer succeed the breaker closes; else it opens again.
- A load that says that the folder is at fault (`LoadFailCode.BAD_MODEL`) opens it until a file of the folder changes.
- A worker that lived for 60 s and answered a request is sound: everything before is forgotten. Living alone proves nothing. Where models
  take turns none lives for long: there, an answer also makes faults forgotten that are 10 min old.

A request that meets a back-off waits for it *in its place in the queue*, since a queued request is never failed by a worker's death. One
that could not live to see the end of it, and any request that meets an open breaker, is refused at once (503 model_unavailable).
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from ipc.messages import LoadFailCode
from supervisor.restart_record import ModelRecord, Phase
from supervisor.restart_settings import RestartSettings


@dataclass(frozen=True, slots=True)
class Allowed:
    """The load may begin."""


@dataclass(frozen=True, slots=True)
class WaitFor:
    """The load may begin after so long, unless something happens before. Ask again then."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Open:
    """The request must be refused now. reason: fit for a client. retry_after_s: above zero, when it is worth to ask again."""

    reason: str
    retry_after_s: float


Answer: TypeAlias = Allowed | WaitFor | Open


class RestartPolicy:
    """The records of all models.

    clock: monotonic, in seconds. chance: evenly spread between 0 and 1, for the jitter.
    """

    def __init__(
        self,
        settings: RestartSettings,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._chance = chance
        self._records: dict[str, ModelRecord] = {}

    def look(self, model_id: str, fingerprint: Callable[[], str], patience_s: float | None = None) -> Answer:
        """Say whether a load of this model could begin now. Changes nothing; for a request that arrives while the model is not resident.

        fingerprint: gives the mark of the model's folder (`supervisor.folder_mark`); called only while the folder is known to be bad.
        patience_s: how long the asker can wait at most, None for ever: a back-off that is longer is answered with Open.
        """
        record = self._records.get(model_id)

        if record is None:
            return Allowed()

        now = self._clock()
        record.forget_if_sound(now)

        match record.phase:
            case Phase.BAD_FOLDER if fingerprint() == record.bad_mark:
                return Open(
                    f"{record.reason} It is tried again when a file of its folder changes.", self._settings.open_s
                )
            case Phase.OPEN if now < record.open_until:
                return Open(record.reason, record.open_until - now)
            case Phase.PROBING:
                return Open(f"{record.reason} Another request tries it again now.", self._settings.probe_retry_s)
            case Phase.CLOSED | Phase.BAD_FOLDER if now < record.not_before:
                return self._backoff(record, record.not_before - now, patience_s)
            case _:
                return Allowed()

    def _backoff(self, record: ModelRecord, wait_s: float, patience_s: float | None) -> Answer:
        if patience_s is not None and wait_s > patience_s:
            return Open(record.reason, wait_s)

        return WaitFor(wait_s)

    def begin_load(self, model_id: str, fingerprint: Callable[[], str], patience_s: float | None = None) -> Answer:
        """Ask like `look`, just before the worker is started. Allowed counts as begun: it must be followed by `loaded`, `load_failed`,
        `load_died` or `stopped`. Behind a breaker that was open, this request is the one that tries.
        """
        answer = self.look(model_id, fingerprint, patience_s)

        if isinstance(answer, Allowed):
            # Before the worker reads the folder: what changes while it reads may already be the repair.
            mark = fingerprint()
            record = self._records.setdefault(model_id, ModelRecord(self._settings))
            record.begin_load(mark)

        return answer

    def loaded(self, model_id: str) -> None:
        """The worker has loaded its model."""
        self._record(model_id).on_loaded(self._clock())

    def load_failed(self, model_id: str, code: LoadFailCode, message: str) -> None:
        """The worker said that the model cannot be loaded, and why."""
        reason = f"Model '{model_id}' cannot be loaded: {_sentence(message)}"
        record = self._record(model_id)

        if code is LoadFailCode.BAD_MODEL:
            record.on_bad_folder(self._clock(), self._chance(), reason)
        else:
            record.on_load_failed(self._clock(), self._chance(), reason)

    def load_died(self, model_id: str, message: str) -> None:
        """The worker ended, or hung and was ended, before its model was loaded."""
        reason = f"The worker of model '{model_id}' keeps ending while it loads: {_sentence(message)}"
        self._record(model_id).on_load_died(self._clock(), self._chance(), reason)

    def died(self, model_id: str, message: str) -> None:
        """A loaded worker ended although nobody wanted that, or hung and was ended for it."""
        reason = f"The worker of model '{model_id}' keeps ending: {_sentence(message)}"
        self._record(model_id).on_died(self._clock(), self._chance(), reason)

    def request_completed(self, model_id: str) -> None:
        """A worker of this model has answered a request to its end, also one that was at fault itself (`Rejected`)."""
        self._record(model_id).on_completed(self._clock())

    def stopped(self, model_id: str) -> None:
        """A worker of this model, loaded or loading, was ended on purpose (a swap, an unload, nobody waits any more)."""
        self._record(model_id).on_stopped(self._clock())

    def _record(self, model_id: str) -> ModelRecord:
        """Return the record. Raises ValueError, naming the model, when no load of it was begun."""
        record = self._records.get(model_id)

        if record is None:
            raise ValueError(f"no load of model_id '{model_id}' was begun")

        return record


def _sentence(message: str) -> str:
    return message if message.endswith((".", "!", "?")) else f"{message}."
