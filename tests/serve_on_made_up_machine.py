"""`prism serve` with the stand-in, on a machine with a made-up GPU of 10 GiB: each announced resident takes what its record says.

So two such servers on one state folder share the GPU as two real ones do. Takes the settings from PRISM_ variables.
"""

import logging
import sys
from dataclasses import replace
from pathlib import Path

from prism.http.serve import run_server
from prism.settings import ServeFlags, load_serve_settings
from supervisor.gpu_report import GpuDevice
from supervisor.memory_gauge import RamGauge
from supervisor.residents import list_residents
from supervisor.settings import MemorySettings, SupervisorSettings
from tests.conftest import on_stand_in

TOTAL_BYTES = 10 << 30
UUID = "GPU-cccc3333-0000-0000-0000-000000000000"


class SharedGpu(RamGauge):
    """The GPU."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def available_ram(self) -> int:
        return 64 << 30

    async def cuda_device(self) -> GpuDevice | None:
        return GpuDevice(
            index=0,
            name="NVIDIA Test",
            uuid=UUID,
            compute_capability="8.9",
            vram_total_bytes=TOTAL_BYTES,
            vram_used_bytes=None,
            vram_free_bytes=await self.free_vram(UUID),
        )

    async def free_vram(self, device_uuid: str) -> int | None:
        residents = list_residents(self._state_dir, includes_own=True)
        return TOTAL_BYTES - sum(record.resident.vram_bytes for record in residents)

    async def process_vram(self, pid: int, device_uuid: str) -> int | None:
        residents = [record.resident for record in list_residents(self._state_dir, includes_own=True)]
        return sum(resident.vram_bytes for resident in residents if resident.worker_pid == pid)


def as_configured(settings: SupervisorSettings) -> SupervisorSettings:
    """Keep the check of memory."""
    return replace(on_stand_in(settings), memory=MemorySettings(vram_reserve_mb=0.0, ram_reserve_mb=0.0))


if __name__ == "__main__":
    serve_settings, _ = load_serve_settings(ServeFlags())
    logging.basicConfig(level="INFO")
    sys.exit(run_server(serve_settings, as_configured, SharedGpu(serve_settings.state_dir)))
