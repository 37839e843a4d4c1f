"""At most one resident model on this server, and the turns in which it is used.

Everything that changes the resident worker (a load, a swap, an unload, the end) happens inside a turn, so no two changes can meet.
What a client that left has not finished is settled before the turn is given to the next (`supervisor.settling`).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ipc.messages import GenerationTask, Loaded
from supervisor.background import Background, ignore_fault
from supervisor.errors import ModelUnloaded, ServerDraining, ServerFailing
from supervisor.event_log import EventLog
from supervisor.host_status import HostState, HostStatus, UnloadReport
from supervisor.loader import Loader
from supervisor.memory_gauge import MemoryGauge, RamGauge
from supervisor.memory_watch import VramRelease
from supervisor.open_turns import OpenTurns
from supervisor.recycling import Recycling
from supervisor.residency import Residency
from supervisor.seat import Seat
from supervisor.seating import Seating
from supervisor.settings import ModelRef, SupervisorSettings
from supervisor.settling import Settling
from supervisor.turn import Turn as Turn
from supervisor.turns import Turns
from supervisor.worker import Worker
from supervisor.worker_state import WorkerState

logger = logging.getLogger(__name__)


class ModelHost:
    """Opened and closed by the server; used by its handlers. All in the event loop's thread."""

    def __init__(
        self,
        settings: SupervisorSettings,
        gauge: MemoryGauge | None = None,
        on_fault: Callable[[BaseException], None] = ignore_fault,
    ) -> None:
        """gauge: tells of memory; None for a machine without a GPU.

        on_fault: called for an error in here that no request is told of: what the host promises may not hold any more. See `fail`.
        """
        self._settings = settings
        self._events = EventLog(settings.event_log)
        self._turns = Turns(settings.max_queue, settings.queue_timeout_s, self._events)
        self._background = Background(on_fault)
        self._loader = Loader(settings, self._background, gauge or RamGauge(), self._events)
        self._draining = asyncio.Event()
        self._drained: asyncio.Task[str | None] | None = None
        self._residency = Residency(
            self._loader, self._background, settings.memory.release_wait_s, self._draining, self._raise_if_cut
        )
        self._recycling = Recycling(
            settings.recycle,
            gauge or RamGauge(),
            self._background,
            self._turns,
            self._residency,
            self._load,
            lambda model: self._settling.end_turn(None, model),
        )
        self._settling = Settling(
            self._turns, self._residency, self._background, settings.cancel_grace_s, self._recycling.takes_turn
        )
        self._open_turns = OpenTurns(self._settling, lambda: self._residency.worker)
        self._seating = Seating(
            self._turns,
            self._loader,
            settings.load_lock,
            self._residency.is_resident,
            self._settling.end_unwanted_load,
        )

    @property
    def _worker(self) -> Worker | None:
        return self._residency.worker

    def check_task(self, model: ModelRef, task: GenerationTask) -> None:
        """Raise PromptRefused for a task under which workers ended. For those who would rather not queue for that answer."""
        self._loader.check_task(model.model_id, task)

    @asynccontextmanager
    async def turn(self, model: ModelRef, tokens: int = 0) -> AsyncIterator[Turn]:
        """Wait for the turn, load the model if another or none is resident, and give the worker until the block ends.

        A worker that takes several requests is given to as many at a time.

        tokens: of the request, prompt and answer, for which the model must have room; an estimate.

        Raises ServerBusy, ServerDraining, ModelUnavailable, InsufficientResources, ModelLoadFailed, WorkerDied, WorkerUnresponsive or
        EngineOutOfMemory before the block begins. When the block ends before its generation has (the client left, a stop string was
        found), the worker is told to stop.
        """
        seat = await self._seating.take(model, tokens)
        turn: Turn | None = None

        try:
            worker, loaded = await self._load(seat)
            self._raise_if_cut()
            turn = Turn(
                worker,
                loaded,
                lambda: self._load(seat),
                lambda task: self.check_task(model, task),
            )
            self._open_turns.add(turn, seat)
            yield turn
        finally:
            if turn is not None:
                self._open_turns.discard(turn)

            if seat.has_turn:
                self._settling.end_turn(turn.stream if turn is not None else None, model)

    async def _load(self, seat: Seat) -> tuple[Worker, Loaded]:
        worker, loaded = await self._residency.load(seat, self._seating)
        self._seating.share(seat.model, self._places(loaded))
        return worker, loaded

    def _places(self, loaded: Loaded) -> int:
        return min(loaded.parallel, self._settings.parallel)

    def tell_url(self, url: str) -> None:
        """The server answers here from now on; the records of its models say so, for those who look for a server to ask."""
        self._loader.url = url

    async def preload(self, model: ModelRef) -> Loaded:
        """Load a model before anybody asks for it. Raises as `turn` does."""
        async with self.turn(model) as turn:
            return turn.loaded

    async def unload(self, timeout_s: float | None = None) -> UnloadReport:
        """Stop the resident worker, behind the request that runs and ahead of those that wait.

        Returns only after the process is gone and, on a GPU, its memory is back (bounded).
        Safe against a caller that leaves: the stop goes on and the turn is handed on after it.

        timeout_s: past it what runs is ended with ModelUnloaded; None waits for its own end.
        """
        interrupted_id = await self._take_turn_to_unload(timeout_s)
        model_id = self._residency.model_id or interrupted_id

        # Also when there is no id: a worker that failed may not be gone yet.
        releases = list[VramRelease | None]()
        await self._background.finish(self._settling.by_stopping(releases.append))
        return UnloadReport(model_id, releases[-1] if releases else None)

    async def _take_turn_to_unload(self, timeout_s: float | None) -> str | None:
        """Take the turn as an operator; see `OpenTurns.resume`."""
        error = ModelUnloaded("the model was unloaded, and the time for what ran was over", retry_after_s=1.0)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(timeout_s, self._open_turns.interrupt, error) if timeout_s is not None else None
        interrupted_id: str | None = None

        try:
            await self._turns.take_for_operator()
        finally:
            if timer is not None:
                timer.cancel()

            interrupted_id = self._open_turns.resume()

        return interrupted_id

    def drain(self, timeout_s: float | None = None) -> asyncio.Task[str | None]:
        """Refuse new and waiting requests, let the running one end, stop the worker. A second drain gets the first one's task.

        timeout_s: past it the running generation is cancelled and told ServerDraining; None waits for its own end.
        """
        self._draining.set()
        self._turns.close()
        self._recycling.drop_load()
        self._loader.drop_spare()

        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_task(self._drain())
            self._drained.add_done_callback(self._background.look_at)

        if timeout_s is not None:
            self._background.start(self._cut_after(timeout_s, self._drained))

        return self._drained

    async def _drain(self) -> str | None:
        await self._turns.take_for_operator()

        try:
            # Taken in any case: what is left of it would be told to an unload that comes later.
            interrupted_id = self._open_turns.resume()
            model_id = self._residency.model_id or interrupted_id
            await self._residency.stop()
            await self._loader.wait_spare_gone()
            return model_id
        finally:
            self._turns.release()

    async def _cut_after(self, timeout_s: float, drained: asyncio.Task[str | None]) -> None:
        done, _ = await asyncio.wait({drained}, timeout=timeout_s)

        if done:
            return

        self._open_turns.cut(
            ServerDraining(f"the server drains and the time for running requests ({timeout_s:g} s) is over")
        )

    def fail(self) -> None:
        """End all that is open with an error, and let nothing begin: the host is broken and its process will end. Never raises."""
        error = ServerFailing("the server has to end because of a fault of its own; its log has the reason")
        self._draining.set()

        acts: tuple[Callable[[ServerFailing], None], ...] = (
            self._turns.close,
            self._open_turns.cut,
            self._kill,
            lambda _: self._loader.drop_spare(),
        )

        for act in acts:
            try:
                act(error)
            except Exception:  # whatever is broken, the others are told
                logger.exception("not everybody can be told that the server ends")

    def _kill(self, error: ServerFailing) -> None:
        if self._worker is not None:
            self._worker.kill(error, is_fault=False)

    def _raise_if_cut(self) -> None:
        self._open_turns.raise_if_cut()

    async def close(self) -> None:
        """End everything at once: for the last steps of the server, after its handlers have ended."""
        self._draining.set()
        self._turns.close()
        self._recycling.drop_load()

        await self._residency.close()
        await self._loader.wait_spare_gone()

        if self._drained is not None:
            # What it waits for has been done above.
            self._drained.cancel()
            await asyncio.gather(self._drained, return_exceptions=True)

        await self._background.close()
        self._loader.close()
        self._events.close()

    def status(self) -> HostStatus:
        """Report, without waiting for anything."""
        worker = self._worker if self._worker is not None and self._worker.is_usable else None
        loaded = worker.loaded if worker is not None else None
        return HostStatus(
            state=self._state(worker),
            model_id=worker.model.model_id if worker is not None and loaded is not None else None,
            loaded=loaded,
            worker_pid=worker.pid if worker is not None else None,
            generation=self._loader.generation,
            restarts=self._loader.restarts,
            running=worker.running if worker is not None else 0,
            parallel=self._places(loaded) if loaded is not None else None,
            waiting=self._turns.waiting,
            max_queue=self._turns.max_queue,
        )

    def _state(self, worker: Worker | None) -> HostState:
        if self._draining.is_set():
            return HostState.DRAINING

        if self._loader.is_stuck:
            return HostState.DEGRADED

        if worker is None:
            return HostState.IDLE

        if worker.loaded is None:
            return HostState.LOADING

        return HostState.BUSY if worker.state is WorkerState.GENERATING else HostState.READY
