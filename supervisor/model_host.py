"""At most one resident model on this server, and the turns in which it is used.

Everything that changes the resident worker (a load, a swap, an unload, the end) happens inside a turn, so no two changes can meet.
A client may leave at any moment; what it leaves unfinished is settled by a task of the host, which keeps the turn until the worker is
idle or gone. So a turn is never given while the engine still works for somebody else.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ipc.messages import GenerationTask, Loaded
from supervisor.background import Background
from supervisor.errors import ServerDraining, WorkerUnresponsive
from supervisor.host_status import HostState, HostStatus, UnloadReport
from supervisor.loader import Loader
from supervisor.memory_gauge import MemoryGauge, RamGauge
from supervisor.memory_watch import VramRelease
from supervisor.request_stream import RequestStream
from supervisor.residency import OnRelease, Residency, ignore
from supervisor.seating import Seating
from supervisor.settings import ModelRef, SupervisorSettings
from supervisor.turn import Turn as Turn
from supervisor.turns import Turns
from supervisor.worker import Worker
from supervisor.worker_state import WorkerState


class ModelHost:
    """Opened and closed by the server; used by its handlers. All in the event loop's thread."""

    def __init__(self, settings: SupervisorSettings, gauge: MemoryGauge | None = None) -> None:
        """gauge: tells of memory; None for a machine without a GPU."""
        self._settings = settings
        self._turns = Turns(settings.max_queue, settings.queue_timeout_s)
        self._background = Background()
        self._loader = Loader(settings, self._background, gauge or RamGauge())
        # More than one only while the others wait in a back-off.
        self._open_turns: set[Turn] = set()
        self._draining = asyncio.Event()
        self._drained: asyncio.Task[str | None] | None = None
        self._cut_error: ServerDraining | None = None
        self._residency = Residency(
            self._loader, self._background, settings.memory.release_wait_s, self._draining, self._raise_if_cut
        )
        self._seating = Seating(self._turns, self._loader, self._residency.is_resident, self._end_unwanted_load)

    @property
    def _worker(self) -> Worker | None:
        return self._residency.worker

    def check_task(self, model: ModelRef, task: GenerationTask) -> None:
        """Raise PromptRefused for a task under which workers ended. For those who would rather not queue for that answer."""
        self._loader.check_task(model.model_id, task)

    @asynccontextmanager
    async def turn(self, model: ModelRef, tokens: int = 0) -> AsyncIterator[Turn]:
        """Wait for the turn, load the model if another or none is resident, and give the worker until the block ends.

        tokens: of the request, prompt and answer, for which the model must have room; an estimate.

        Raises ServerBusy, ServerDraining, ModelUnavailable, InsufficientResources, ModelLoadFailed, WorkerDied, WorkerUnresponsive or
        EngineOutOfMemory before the block begins. When the block ends before its generation has (the client left, a stop string was
        found), the worker is told to stop.
        """
        seat = await self._seating.take(model, tokens)
        turn: Turn | None = None

        try:
            worker, loaded = await self._residency.load(seat, self._seating)
            self._raise_if_cut()
            turn = Turn(
                worker,
                loaded,
                lambda: self._residency.load(seat, self._seating),
                lambda task: self.check_task(model, task),
            )
            self._open_turns.add(turn)
            yield turn
        finally:
            if turn is not None:
                self._open_turns.discard(turn)

            if seat.has_turn:
                self._end_turn(turn.stream if turn is not None else None, model)

    def _end_turn(self, stream: RequestStream | None, model: ModelRef) -> None:
        """Hand the turn on, at once when the worker is idle, else when it has been brought to rest."""
        worker = self._worker

        if worker is None or worker.state is WorkerState.EXITED:
            self._turns.release()
        elif stream is not None and not stream.ended.is_set():
            self._background.start(self._settle_request(worker, stream))
        elif not worker.is_usable or (worker.loaded is None and not self._turns.next_wants(model.model_id)):
            # A load that nobody waits for any more is ended; one that the next in the queue wants goes on.
            self._background.start(self._settle_by_stopping())
        else:
            self._turns.release()

    def _end_unwanted_load(self) -> None:
        """End a load that was kept going for a request that has just left the queue in the moment of its turn."""
        worker = self._worker

        if worker is not None and worker.loaded is None and self._turns.take_if_free():
            self._background.start(self._settle_by_stopping())

    async def _settle_request(self, worker: Worker, stream: RequestStream) -> None:
        """Cancel an abandoned generation and wait for its end; past the bound the worker is killed when somebody waits for the turn.

        When nobody does, an honest slice may take its time; the watch ends a worker that hangs.
        """
        try:
            stream.cancel()
            grace_s = self._settings.cancel_grace_s

            if not await _ends_within(stream, grace_s) and not await self._ends_before_it_is_wanted(stream):
                worker.kill(
                    WorkerUnresponsive(f"the worker did not stop within {grace_s:g} s of a cancel"), is_fault=False
                )

            if not worker.is_usable:
                await self._residency.stop()
        finally:
            self._turns.release()

    async def _ends_before_it_is_wanted(self, stream: RequestStream) -> bool:
        """Bounded by the watch over the worker, and by the end of the host, both of which end the stream."""
        async with asyncio.TaskGroup() as tasks:
            waits = {tasks.create_task(stream.ended.wait()), tasks.create_task(self._turns.wait_wanted())}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)

            for wait in waits:
                wait.cancel()

        return stream.ended.is_set()

    async def _settle_by_stopping(self, on_release: OnRelease = ignore) -> None:
        try:
            await self._residency.stop(on_release)
        finally:
            self._turns.release()

    async def preload(self, model: ModelRef) -> Loaded:
        """Load a model before anybody asks for it. Raises as `turn` does."""
        async with self.turn(model) as turn:
            return turn.loaded

    async def unload(self) -> UnloadReport:
        """Stop the resident worker, behind the request that runs and ahead of those that wait.

        Returns only after the process is gone and, on a GPU, its memory is back (bounded).
        Safe against a caller that leaves: the stop goes on and the turn is handed on after it.
        """
        await self._turns.take_for_operator()
        model_id = self._residency.model_id

        # Also when there is no id: a worker that failed may not be gone yet.
        releases = list[VramRelease | None]()
        await self._background.finish(self._settle_by_stopping(releases.append))
        return UnloadReport(model_id, releases[-1] if releases else None)

    def drain(self, timeout_s: float | None = None) -> asyncio.Task[str | None]:
        """Refuse new and waiting requests, let the running one end, stop the worker. A second drain gets the first one's task.

        timeout_s: past it the running generation is cancelled and told ServerDraining; None waits for its own end.
        """
        self._draining.set()
        self._turns.close()

        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_task(self._drain())

        if timeout_s is not None:
            self._background.start(self._cut_after(timeout_s, self._drained))

        return self._drained

    async def _drain(self) -> str | None:
        await self._turns.take_for_operator()

        try:
            model_id = self._residency.model_id
            await self._residency.stop()
            return model_id
        finally:
            self._turns.release()

    async def _cut_after(self, timeout_s: float, drained: asyncio.Task[str | None]) -> None:
        done, _ = await asyncio.wait({drained}, timeout=timeout_s)

        if done:
            return

        self._cut(ServerDraining(f"the server drains and the time for running requests ({timeout_s:g} s) is over"))

    def _cut(self, error: ServerDraining) -> None:
        """End the running request or load with this error, at whatever point it is."""
        self._cut_error = error

        for turn in self._open_turns:
            turn.cut(error)

        if self._worker is not None and self._worker.loaded is None:
            self._worker.kill(error, is_fault=False)

    def _raise_if_cut(self) -> None:
        if self._cut_error is not None:
            raise self._cut_error

    async def close(self) -> None:
        """End everything at once: for the last steps of the server, after its handlers have ended."""
        self._draining.set()
        self._turns.close()

        await self._residency.close()

        if self._drained is not None:
            # What it waits for has been done above.
            self._drained.cancel()
            await asyncio.gather(self._drained, return_exceptions=True)

        await self._background.close()
        self._loader.close()

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


async def _ends_within(stream: RequestStream, bound_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(bound_s):
            await stream.ended.wait()

    return stream.ended.is_set()
