"""Starts workers, if what happened to those before allows it. Used by the host, inside a turn; in the event loop's thread."""

import logging
from collections.abc import Sequence

from ipc.front_end import ChannelContext
from ipc.messages import GenerationTask, LoadFailCode
from supervisor.admission import Admission
from supervisor.background import Background
from supervisor.child_process import Unkillable
from supervisor.errors import ModelLoadFailed, PromptRefused, WorkerUnresponsive
from supervisor.event_log import EventLog
from supervisor.folder_mark import folder_mark
from supervisor.load_lock import LoadLock
from supervisor.load_permit import LoadPermit, take_lock
from supervisor.memory_gauge import MemoryGauge
from supervisor.memory_watch import VramRelease, VramWatch
from supervisor.orphans import Reaper
from supervisor.poison_prompts import PoisonPrompts
from supervisor.restart_policy import Answer, RestartPolicy
from supervisor.seat import Seat
from supervisor.settings import ModelRef, SupervisorSettings
from supervisor.spare_keeper import SpareKeeper
from supervisor.tenure import Tenure
from supervisor.worker import Worker
from supervisor.worker_history import WorkerHistory
from supervisor.worker_record import WorkerFacts
from supervisor.worker_state import WorkerState

logger = logging.getLogger(__name__)


class Loader:
    """Makes one worker after the other, each with the next number.

    generation: number of the newest worker, 0 before the first. restarts: workers that ended although nobody wanted that.
    url: where this server answers, for the others to read; None as long as it does not.
    """

    def __init__(
        self, settings: SupervisorSettings, background: Background, gauge: MemoryGauge, events: EventLog
    ) -> None:
        self._settings = settings
        self._events = events
        self._background = background
        self._gauge = gauge
        self._admission = Admission(settings, gauge)
        self._spares = SpareKeeper(settings, gauge)
        state_dir = settings.load_lock.state_dir
        self._lock = LoadLock(state_dir) if state_dir is not None and settings.load_lock.is_on else None
        self._reaper = Reaper(state_dir, settings.kill_wait_s) if state_dir is not None else None
        self._stuck: list[Worker] = []
        self._channels = ChannelContext()
        self._policy = RestartPolicy(settings.restart)
        self._poison = PoisonPrompts(settings.poison)
        self.generation = 0
        self.restarts = 0
        self.url: str | None = None

    def look(self, seat: Seat) -> Answer:
        """Say whether a load of its model could begin now; see `RestartPolicy.look`."""
        return self._policy.look(seat.model.model_id, lambda: folder_mark(seat.model.path), seat.patience_s())

    def begin(self, seat: Seat) -> Answer:
        """Ask for the start of a worker. Allowed must be followed by `spawn`; see `RestartPolicy.begin_load`."""
        return self._policy.begin_load(seat.model.model_id, lambda: folder_mark(seat.model.path), seat.patience_s())

    async def permit(self, seat: Seat, leaving: Worker | None) -> LoadPermit:
        """Take the right to load, and find a place. leaving: the resident worker.

        Raises LoadLockBusy at once when another server loads, InsufficientResources, ModelLoadFailed.
        """
        lock = await take_lock(self._lock, seat.model.model_id) if self._lock is not None else None

        try:
            orphans = await self._orphans()
            placement = await self._admission.place(seat, leaving, self._stuck, orphans, self._spares.pid)
            return LoadPermit(lock, placement)
        except BaseException:
            if lock is not None:
                lock.release()

            raise

    async def _orphans(self) -> Sequence[WorkerFacts]:
        """Return the workers of dead servers that cannot be ended."""
        return () if self._reaper is None else await self._reaper.end_all()

    def spawn(self, model: ModelRef, permit: LoadPermit) -> Worker:
        """Start the worker, which owns the permit from now on. Raises ModelLoadFailed when the system refuses."""
        self.generation += 1
        spare = self._spares.take(permit.placement.variables)
        record = spare.take_record() if spare is not None else None
        tenure = Tenure(self._settings.load_lock, model.model_id, permit, self.url, record)
        history = self._history(model, permit, tenure)

        try:
            worker = Worker(
                self._settings,
                self._channels,
                self._background,
                model,
                self.generation,
                permit.placement,
                history,
                self._gauge,
                self._count_crash,
                spare,
            )
        except (OSError, ValueError) as error:
            reason = str(error.strerror if isinstance(error, OSError) and error.strerror else error)
            history.load_failed(LoadFailCode.OTHER, reason)
            tenure.gone()
            raise ModelLoadFailed(f"no worker can be started for '{model.model_id}': {reason}") from error
        finally:
            if spare is not None and not spare.is_given:
                self._spares.discard(spare)

        self._events.write("started", worker=worker.number, model=model.model_id, pid=worker.pid)
        permit.hand_over()
        return worker

    def _history(self, model: ModelRef, permit: LoadPermit, tenure: Tenure) -> WorkerHistory:
        return WorkerHistory(
            model.model_id,
            self.generation,
            self._policy,
            self._poison,
            tenure,
            self._events,
            lambda: self._spares.load_ended_well(permit.placement.variables),
        )

    @property
    def is_stuck(self) -> bool:
        """Whether a worker that cannot be ended still holds its memory."""
        return any(worker.state is not WorkerState.EXITED for worker in self._stuck)

    async def end(self, worker: Worker, release_wait_s: float) -> VramRelease | None:
        """End a worker and wait until its memory is back, at most so long; None when it was on no GPU.

        Raises WorkerUnresponsive when the process cannot be ended; it is set aside, since it still holds its memory.
        """
        watch = await VramWatch.begin(self._gauge, worker) if release_wait_s > 0 else None

        try:
            await worker.stop()
        except Unkillable as error:
            logger.critical("[worker %d] is set aside: %s", worker.number, error)
            self._stuck.append(worker)
            raise WorkerUnresponsive(f"the worker of '{worker.model.model_id}' cannot be ended: {error}") from error

        release = await watch.wait_back(release_wait_s) if watch is not None else None

        if release is not None and not release.is_verified:
            logger.warning("[worker %d] its GPU memory was not seen to be back", worker.number)

        return release

    def _count_crash(self) -> None:
        self.restarts += 1

    def check_task(self, model_id: str, task: GenerationTask) -> None:
        """Raise PromptRefused for a task under which workers of this model ended."""
        refused_s = self._poison.refused_for_s(model_id, task.identity())

        if refused_s is not None:
            raise PromptRefused(
                f"workers of model '{model_id}' ended under this prompt {self._settings.poison.deaths_to_refuse} times; "
                f"it is refused for the next {refused_s:.0f} s"
            )

    def drop_spare(self) -> None:
        """End the process that waits for a load, since none will come."""
        self._spares.close()

    async def wait_spare_gone(self) -> None:
        """Do that, and wait until it is gone. Bounded as a worker's stop is."""
        await self._spares.wait_closed()

    def close(self) -> None:
        """End the channels, after all workers."""
        self._channels.close()
