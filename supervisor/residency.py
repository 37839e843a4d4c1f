"""The resident worker of a host: how it comes, and how it goes. The only owner of workers. Used by `ModelHost` only.

Everything here but `is_resident` happens inside a turn, so no two changes can meet. In the event loop's thread; a load takes as long as the
watch over the worker allows, a stop is bounded by its grace and the wait for memory.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TypeAlias

from ipc.messages import Loaded
from supervisor.background import Background
from supervisor.errors import (
    LoadLockBusy,
    ModelLoadFailed,
    ModelUnavailable,
    ServerDraining,
    WorkerDied,
    WorkerOutOfMemory,
)
from supervisor.load_permit import LoadPermit
from supervisor.loader import Loader
from supervisor.memory_watch import VramRelease
from supervisor.restart_policy import Allowed
from supervisor.seat import Seat
from supervisor.seating import Seating
from supervisor.settings import ModelRef
from supervisor.worker import Worker

logger = logging.getLogger(__name__)

# A worker that dies while it loads, without a reason of its own, gets one more try for the request that waits.
LOAD_ATTEMPTS = 2
OnRelease: TypeAlias = Callable[[VramRelease | None], None]


def ignore(_: VramRelease | None) -> None:
    """Take no note."""


class Residency:
    """At most one worker.

    worker: the resident one, also while it loads or ends; None when there is none. draining: set when the server begins to finish.
    raise_if_cut: raises when the time for what runs is over.
    """

    def __init__(
        self,
        loader: Loader,
        background: Background,
        release_wait_s: float,
        draining: asyncio.Event,
        raise_if_cut: Callable[[], None],
    ) -> None:
        self._loader = loader
        self._background = background
        self._release_wait_s = release_wait_s
        self._draining = draining
        self._raise_if_cut = raise_if_cut
        self.worker: Worker | None = None

    def is_resident(self, model: ModelRef) -> bool:
        """Say whether the model needs no start: its worker serves, or will once it is loaded."""
        return self.worker is not None and self.worker.model == model and self.worker.is_usable

    @property
    def model_id(self) -> str | None:
        """The id of the resident model; None when none is, or its worker is of no use."""
        return self.worker.model.model_id if self.worker is not None and self.worker.is_usable else None

    async def load(self, seat: Seat, seating: Seating) -> tuple[Worker, Loaded]:
        """Make the model of this seat the resident one. Others may have the turn for a back-off, and while another server loads."""
        death: WorkerDied | None = None

        for _ in range(LOAD_ATTEMPTS):
            try:
                worker = await self._worker_for(seat, seating)
                return worker, await worker.wait_loaded()
            except WorkerOutOfMemory:
                # Once more would take the memory of the others once more.
                raise
            except WorkerDied as error:
                logger.warning("the load of '%s' died: %s", seat.model.model_id, error)
                death = error
            except ModelUnavailable:
                if death is None:
                    raise

                # What happened to this request itself says more.
                break

        raise ModelLoadFailed(f"model '{seat.model.model_id}' cannot be loaded: {death}") from death

    async def _worker_for(self, seat: Seat, seating: Seating) -> Worker:
        """Return the resident worker if it has this model and may go on, else a new one."""
        while True:
            if self.worker is not None and self.is_resident(seat.model):
                return self.worker

            if not await seating.alone(seat):
                continue

            if self.worker is not None and not self.worker.is_usable:
                # Its end may say something about the model, which is asked for next.
                await self.stop()

            # Before another model has to leave for one that may not come.
            if not await seating.may_begin(self._loader.look(seat), seat):
                continue

            try:
                permit = await self._until_drain(self._loader.permit(seat, self.worker))
            except LoadLockBusy:
                await seating.wait_for_lock(seat)
                continue

            seat.lock_deadline = None

            with permit:
                await self.stop()
                self._raise_if_cut()
                answer = self._loader.begin(seat)

                if isinstance(answer, Allowed):
                    self.worker = self._loader.spawn(seat.model, permit)
                    return self.worker

            await seating.may_begin(answer, seat)

    async def _until_drain(self, asking: Coroutine[None, None, LoadPermit]) -> LoadPermit:
        """Wait for the right to load and a place. A drain does not wait for that."""
        permits, draining = asyncio.create_task(asking), asyncio.create_task(self._draining.wait())

        try:
            await asyncio.wait({permits, draining}, return_when=asyncio.FIRST_COMPLETED)

            if not permits.done():
                raise ServerDraining("the server is draining and begins no load")

            return permits.result()
        except BaseException:
            permits.add_done_callback(_let_go)
            permits.cancel()
            raise
        finally:
            draining.cancel()

    async def stop(self, on_release: OnRelease = ignore) -> None:
        """End the resident worker, if there is one, and wait until it is gone. Once begun it is finished, whoever leaves."""
        if self.worker is None:
            return

        await self._background.finish(self._stop(self.worker, self._release_wait_s, on_release))

    async def _stop(self, worker: Worker, release_wait_s: float, on_release: OnRelease = ignore) -> None:
        try:
            on_release(await self._loader.end(worker, release_wait_s))
        finally:
            if self.worker is worker:
                self.worker = None

    async def close(self) -> None:
        """End the worker at once, for the last steps of the server."""
        if self.worker is not None:
            await asyncio.gather(self._stop(self.worker, release_wait_s=0), return_exceptions=True)


def _let_go(permits: asyncio.Task[LoadPermit]) -> None:
    """Give back what came in the very moment in which nobody wanted it any more."""
    if not permits.cancelled() and permits.exception() is None:
        permits.result().release()
