"""The memory of this machine, and the device on which a worker would run. Read afresh for each decision, in the event loop's thread.

Nothing here raises because of a driver, and nothing blocks for longer than the deadline of `supervisor.nvml`.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from supervisor.cuda_probe import CudaProber, cuda_library_path, with_device
from supervisor.gpu_report import GpuDevice
from supervisor.hardware import private_memory, read_ram
from supervisor.nvml import Nvml
from supervisor.visible_devices import visible_devices


class MemoryGauge(Protocol):
    """What a decision about memory needs to know."""

    def available_ram(self) -> int:
        """Return the bytes of main memory that can be had without swapping."""

    def private_ram(self, pid: int) -> int:
        """Return the bytes of main memory that the end of a process gives back; 0 when nobody can tell."""

    async def cuda_device(self) -> GpuDevice | None:
        """Return the device that a worker would use; None when there is none, or nobody can tell."""

    async def free_vram(self, device_uuid: str) -> int | None:
        """Return the free bytes of a device; None when nobody tells."""

    async def process_vram(self, pid: int, device_uuid: str) -> int | None:
        """Return the bytes that a process holds there; None when nobody tells, 0 also where the process has another number."""

    async def is_computing(self, device_uuid: str) -> bool:
        """Say whether a device is seen to compute just now; False when nobody tells."""

    async def worker_variables(self) -> Mapping[str, str]:
        """Return what the environment of a worker needs beyond ours so that it finds the libraries of CUDA."""


class RamGauge:
    """A machine without a GPU, as far as it is asked."""

    def available_ram(self) -> int:
        """See `MemoryGauge`."""
        return read_ram().available_bytes

    def private_ram(self, pid: int) -> int:
        """See `MemoryGauge`."""
        return private_memory(pid)

    async def cuda_device(self) -> GpuDevice | None:
        """See `MemoryGauge`."""
        return None

    async def free_vram(self, device_uuid: str) -> int | None:
        """See `MemoryGauge`."""
        return None

    async def process_vram(self, pid: int, device_uuid: str) -> int | None:
        """See `MemoryGauge`."""
        return None

    async def is_computing(self, device_uuid: str) -> bool:
        """See `MemoryGauge`."""
        return False

    async def worker_variables(self) -> Mapping[str, str]:
        """See `MemoryGauge`."""
        return {}


class MachineGauge(RamGauge):
    """The machine as the driver tells it. nvml and prober stay the caller's. environment: that of workers."""

    def __init__(self, nvml: Nvml, prober: CudaProber, environment: Mapping[str, str]) -> None:
        self._nvml = nvml
        self._prober = prober
        self._environment = environment
        self._library_path: str | None = None

    async def cuda_device(self) -> GpuDevice | None:
        """See `MemoryGauge`. A device whose libraries are certain to be missing is none."""
        visible, order = (self._environment.get(name) for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"))
        report = visible_devices(await self._nvml.read_devices(), visible, order)
        is_impossible = with_device(self._prober.latest(), report).is_usable is False
        return report.devices[0] if report.devices and not is_impossible else None

    async def free_vram(self, device_uuid: str) -> int | None:
        """See `MemoryGauge`."""
        return await self._nvml.free_memory(device_uuid)

    async def process_vram(self, pid: int, device_uuid: str) -> int | None:
        """See `MemoryGauge`."""
        return await self._nvml.process_memory(pid, device_uuid)

    async def is_computing(self, device_uuid: str) -> bool:
        """See `MemoryGauge`."""
        return await self._nvml.is_busy(device_uuid) is True

    async def worker_variables(self) -> Mapping[str, str]:
        """See `MemoryGauge`."""
        if self._library_path is None:
            self._library_path = await asyncio.to_thread(cuda_library_path, self._environment)

        return {"LD_LIBRARY_PATH": self._library_path} if self._library_path else {}
