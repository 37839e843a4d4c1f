"""Looks after a worker's end whether the memory of its GPU is back. Used by the loader, in the event loop's thread.

The end of a process is no proof: the driver takes the memory back some hundred milliseconds later, and the next load would not find it.
"""

import asyncio
from dataclasses import dataclass
from typing import Self

from supervisor.memory_budget import is_memory_back
from supervisor.memory_gauge import MemoryGauge
from supervisor.worker import Worker

POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class VramRelease:
    """released_bytes: by how much the device has more free memory than before the stop; others allocate too, so it may be below zero, and
    None when nobody tells. is_verified: the worker's memory was seen to be back.
    """

    released_bytes: int | None
    is_verified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VramWatch:
    """The state of a device before a worker is stopped."""

    gauge: MemoryGauge
    device_uuid: str
    free_before_load: int | None
    free_before_stop: int | None
    used_bytes: int

    @classmethod
    async def begin(cls, gauge: MemoryGauge, worker: Worker) -> Self | None:
        """Look at the device of a worker that is about to be stopped, or has ended; None for one that is on no GPU."""
        gpu = worker.gpu

        if gpu is None:
            return None

        held = await gauge.process_vram(worker.pid, gpu.uuid)
        return cls(
            gauge=gauge,
            device_uuid=gpu.uuid,
            free_before_load=gpu.vram_free_bytes,
            free_before_stop=await gauge.free_vram(gpu.uuid),
            # Neither None nor 0 says how much it holds: the driver may know the process under another number.
            used_bytes=held or worker.placement.vram_bytes,
        )

    async def wait_back(self, bound_s: float) -> VramRelease:
        """Wait until the memory is back, at most so long. Called when the process is gone."""
        deadline = asyncio.get_running_loop().time() + bound_s

        while True:
            free = await self.gauge.free_vram(self.device_uuid)

            if free is None or self.free_before_stop is None:
                return VramRelease(None, is_verified=False)

            is_back = is_memory_back(
                free_now_bytes=free,
                # Unknown: then only what was freed since the stop counts.
                free_before_load_bytes=self.free_before_load if self.free_before_load is not None else 1 << 62,
                free_before_stop_bytes=self.free_before_stop,
                used_bytes=self.used_bytes,
            )

            if is_back or asyncio.get_running_loop().time() >= deadline:
                return VramRelease(free - self.free_before_stop, is_back)

            await asyncio.sleep(POLL_S)
