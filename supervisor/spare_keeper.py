"""Keeps a worker process ready for the next load. Used by the `Loader`, in the event loop's thread.

One is made a moment after a load has ended well, so that it takes no time from the load and little from the answer that waited for it.
There is one try for each load, so a process that cannot wait is not started over and over: the next load starts its own, and tells.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from supervisor.child_process import Unkillable
from supervisor.memory_gauge import MemoryGauge
from supervisor.settings import SupervisorSettings
from supervisor.spare_worker import SpareWorker
from supervisor.worker_environment import worker_environment

logger = logging.getLogger(__name__)

_MIB = 1 << 20


class SpareKeeper:
    """At most one spare."""

    def __init__(self, settings: SupervisorSettings, gauge: MemoryGauge) -> None:
        self._settings = settings
        self._gauge = gauge
        self._spare: SpareWorker | None = None
        self._leaving: set[SpareWorker] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """Process id of the spare; None when there is none."""
        return self._spare.child.pid if self._spare is not None else None

    def load_ended_well(self, variables: Mapping[str, str]) -> None:
        """Make a spare in a moment, for a load with the same variables."""
        if self._settings.spare.is_on and not self._is_closed and self._spare is None:
            self._set_timer(self._settings.spare.after_load_s, lambda: self._make(variables))

    def take(self, variables: Mapping[str, str]) -> SpareWorker | None:
        """Return a spare for a load with these variables, if there is one. The caller gives it a spec, or hands it to `discard`."""
        self._drop_timer()
        spare, self._spare = self._spare, None

        if spare is None:
            return None

        if spare.environment != _environment(variables):
            logger.debug("[spare worker] process %d was made for another place", spare.child.pid)
            self.discard(spare)
            return None

        return spare

    def discard(self, spare: SpareWorker) -> None:
        """End one at once. It has nothing worth a farewell."""
        if not spare.child.exited.done():
            self._leaving.add(spare)
            spare.child.kill()

    def close(self) -> None:
        """End the spare, and make none any more."""
        self._is_closed = True
        self._end()

    async def wait_closed(self) -> None:
        """Close, and wait until the process is gone. Bound: stop_grace_s + kill_wait_s."""
        self.close()

        for spare in tuple(self._leaving):
            try:
                await spare.child.stop(self._settings.stop_grace_s, self._settings.kill_wait_s)
            except Unkillable as error:
                # It holds no model, so it is in nobody's way.
                logger.error("[spare worker] stays: %s", error)

    def _end(self) -> None:
        self._drop_timer()
        spare, self._spare = self._spare, None

        if spare is not None:
            self.discard(spare)

    def _make(self, variables: Mapping[str, str]) -> None:
        self._timer = None

        if self._is_memory_short():
            return

        try:
            self._spare = SpareWorker(self._settings, _environment(variables), self._on_end)
        except (OSError, ValueError) as error:
            logger.warning("[spare worker] cannot be started: %s", error)
            return

        logger.debug("[spare worker] started, process %d", self._spare.child.pid)
        self._set_timer(self._settings.spare.look_s, self._look)

    def _look(self) -> None:
        """End the spare when others need the memory more."""
        self._timer = None

        if self._is_memory_short():
            logger.info("[spare worker] is ended: memory is short")
            self._end()
        else:
            self._set_timer(self._settings.spare.look_s, self._look)

    def _is_memory_short(self) -> bool:
        memory = self._settings.memory
        return memory.is_checked and self._gauge.available_ram() < memory.ram_reserve_mb * _MIB

    def _on_end(self, spare: SpareWorker, status: int) -> None:
        self._leaving.discard(spare)

        if spare is self._spare:
            logger.warning("[spare worker] ended by itself with status %d: %s", status, spare.child.last_line)
            self._spare = None
            self._drop_timer()

    def _set_timer(self, after_s: float, act: Callable[[], None]) -> None:
        self._drop_timer()
        self._timer = asyncio.get_running_loop().call_later(after_s, act)

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    return {**worker_environment(), **variables}
