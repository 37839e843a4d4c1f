"""Whether a GPU computes just now, as the watch over a worker wants to know it: at once, and from a look that is seconds old at the most.

A call that waits for a GPU may use no CPU at all, so without this an honest one would look like a deadlock. The driver tells of the whole
device: what others compute there counts too, and a hang beside them is found by the budget of the call instead. In the event loop's thread.
"""

import asyncio

from supervisor.background import Background
from supervisor.gpu_report import GpuDevice
from supervisor.memory_gauge import MemoryGauge

# The watch looks twice a second; older than this, the driver has not answered.
MAX_AGE_S = 3.0


class GpuActivity:
    """Of one device; None, which is never busy, for a worker that has none."""

    def __init__(self, gpu: GpuDevice | None, gauge: MemoryGauge, background: Background) -> None:
        self._gpu = gpu
        self._gauge = gauge
        self._background = background
        self._is_asking = False
        self._busy_at: float | None = None

    def is_busy(self) -> bool:
        """Say whether the last look found it busy, and begin another look. Never blocks."""
        if self._gpu is None:
            return False

        if not self._is_asking:
            self._is_asking = True
            self._background.start(self._look(self._gpu.uuid))

        return self._busy_at is not None and self._now() - self._busy_at <= MAX_AGE_S

    async def _look(self, device_uuid: str) -> None:
        try:
            is_busy = await self._gauge.is_computing(device_uuid)
        finally:
            self._is_asking = False

        self._busy_at = self._now() if is_busy else None

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
