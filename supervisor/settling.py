"""What happens to the worker when a turn ends: at rest it is handed on, else it is brought to rest first. Used by `ModelHost` only.

A client may leave at any moment; what it leaves unfinished is settled here, by a task that keeps the turn until the worker is idle or gone.
So a turn is never given while the engine still works for somebody else. In the event loop's thread.
"""

import asyncio
import contextlib
from collections.abc import Callable

from supervisor.background import Background
from supervisor.errors import WorkerUnresponsive
from supervisor.request_stream import RequestStream
from supervisor.residency import OnRelease, Residency, ignore
from supervisor.settings import ModelRef
from supervisor.turns import Turns
from supervisor.worker import Worker
from supervisor.worker_state import WorkerState


class Settling:
    """Of one host. cancel_grace_s: see `SupervisorSettings`. recycles: is shown each idle worker, and keeps the turn if it says so."""

    def __init__(
        self,
        turns: Turns,
        residency: Residency,
        background: Background,
        cancel_grace_s: float,
        recycles: Callable[[Worker], bool],
    ) -> None:
        self._recycles = recycles
        self._turns = turns
        self._residency = residency
        self._background = background
        self._cancel_grace_s = cancel_grace_s

    def end_turn(self, stream: RequestStream | None, model: ModelRef, grace_s: float | None = None) -> None:
        """Hand the turn on, at once when the worker is idle, else when it has been brought to rest.

        grace_s: from a cancel until the worker is killed, if somebody waits; None: the usual time.
        """
        try:
            self._end_turn(stream, model, self._cancel_grace_s if grace_s is None else grace_s)
        except Exception as error:
            # A turn that is not handed on is nobody's for ever.
            self._background.tell(error)
            raise

    def _end_turn(self, stream: RequestStream | None, model: ModelRef, grace_s: float) -> None:
        worker = self._residency.worker

        if worker is None or worker.state is WorkerState.EXITED:
            self._turns.release()
        elif stream is not None and not stream.ended.is_set():
            self._background.start(self._settle_request(worker, stream, grace_s))
        elif self._turns.is_shared:
            # The last of those that have it looks after the worker.
            self._turns.release()
        elif not worker.is_usable or (worker.loaded is None and not self._turns.next_wants(model.model_id)):
            # A load that nobody waits for any more is ended; one that the next in the queue wants goes on.
            self._background.start(self.by_stopping())
        elif worker.loaded is None or not self._recycles(worker):
            self._turns.release()

    def end_unwanted_load(self) -> None:
        """End a load that was kept going for a request that has just left the queue in the moment of its turn."""
        worker = self._residency.worker

        if worker is not None and worker.loaded is None and self._turns.take_if_free():
            self._background.start(self.by_stopping())

    async def by_stopping(self, on_release: OnRelease = ignore) -> None:
        """Stop the worker and hand the turn on."""
        try:
            await self._residency.stop(on_release)
        finally:
            self._turns.release()

    async def _settle_request(self, worker: Worker, stream: RequestStream, grace_s: float) -> None:
        """Cancel an abandoned generation and wait for its end; past the bound the worker is killed when somebody waits for the turn.

        When nobody does, an honest slice may take its time; the watch ends a worker that hangs.
        """
        try:
            stream.cancel()

            if not await _ends_within(stream, grace_s) and not await self._ends_before_it_is_wanted(stream):
                worker.kill(
                    WorkerUnresponsive(f"the worker did not stop within {grace_s:g} s of a cancel"), is_fault=False
                )

            if not worker.is_usable and not self._turns.is_shared:
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


async def _ends_within(stream: RequestStream, bound_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(bound_s):
            await stream.ended.wait()

    return stream.ended.is_set()
