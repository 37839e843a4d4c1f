"""Replaces a worker that has taken more and more memory, between requests. Used by `ModelHost`; in the event loop's thread.

An engine that leaks gives nothing back until its process ends. What a request needs for a while looks the same for a while, so the bound is
wide, and no worker is replaced before it is some minutes old: should a model need that much for good, it costs a load now and then.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from supervisor.background import Background
from supervisor.errors import SupervisorError
from supervisor.memory_gauge import MemoryGauge
from supervisor.residency import Residency
from supervisor.seat import Seat
from supervisor.settings import ModelRef, RecycleSettings
from supervisor.turns import Turns
from supervisor.worker import Worker

logger = logging.getLogger(__name__)

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class _Start:
    """The first look at a worker, after the first request that it was used for."""

    worker_number: int
    private_bytes: int
    at: float


class Recycling:
    """Of one host.

    load: makes the model of a seat resident, in the turn that the seat has. end_turn: hands the turn on.
    """

    def __init__(
        self,
        settings: RecycleSettings,
        gauge: MemoryGauge,
        background: Background,
        turns: Turns,
        residency: Residency,
        load: Callable[[Seat], Awaitable[object]],
        end_turn: Callable[[ModelRef], None],
    ) -> None:
        self._settings = settings
        self._gauge = gauge
        self._background = background
        self._turns = turns
        self._residency = residency
        self._load = load
        self._end_turn = end_turn
        self._start: _Start | None = None
        self._loading: asyncio.Task[object] | None = None

    def takes_turn(self, worker: Worker) -> bool:
        """Look at an idle worker at the end of a turn. True: it is replaced, and the turn is handed on after that.

        Costs one file of /proc (about 50 µs).
        """
        if self._settings.growth_mb <= 0:
            return False

        now, private_bytes = asyncio.get_running_loop().time(), self._gauge.private_ram(worker.pid)
        start = self._start

        if start is None or start.worker_number != worker.number:
            self._start = _Start(worker.number, private_bytes, now)
            return False

        grown_mb = (private_bytes - start.private_bytes) / _MIB

        if grown_mb <= self._settings.growth_mb or now - start.at < self._settings.least_age_s:
            return False

        logger.warning("[worker %d] is replaced: it has taken %.0f MiB more since it began", worker.number, grown_mb)
        self._background.start(self._replace(worker.model))
        return True

    async def _replace(self, model: ModelRef) -> None:
        seat = Seat(model, None, has_turn=True)

        try:
            await self._residency.stop()

            # Whoever waits for another model would only have to unload this one again.
            if self._turns.wants_no_other(model.model_id):
                self._loading = asyncio.ensure_future(self._load(seat))
                await asyncio.wait({self._loading})

                if not self._loading.cancelled():
                    self._loading.result()
        except SupervisorError as error:
            logger.error("'%s' is not loaded afresh: %s", model.model_id, error)
        finally:
            self._loading = None

            if seat.has_turn:
                self._end_turn(model)

    def drop_load(self) -> None:
        """End a load that was begun for nobody: the server finishes."""
        if self._loading is not None:
            self._loading.cancel()
