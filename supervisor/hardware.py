"""The machine as `/health` shows it: NVIDIA devices from a short cache, and main memory.

Used in the front's event loop, which nothing here blocks: a report that takes its time is read on in the background while callers get
the last known one. What is returned is frozen, so that no caller can change the cache.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Literal, TypeAlias

import psutil

from supervisor.gpu_report import GpuDevice, GpuReport, GpuState, no_devices
from supervisor.nvml import Nvml

logger = logging.getLogger(__name__)

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """One device in the answer of `/health`. Memory in MiB with one decimal; None where the driver does not tell."""

    index: int
    name: str
    compute_capability: str | None
    vram_total_mb: float | None
    vram_used_mb: float | None
    vram_free_mb: float | None
    qualifying_cuda: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareFound:
    """The block `hardware` of `/health` when there is a device."""

    driver_path: str
    device_count: int
    devices: tuple[DeviceFacts, ...]
    available: Literal[True] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareMissing:
    """The block `hardware` of `/health` when there is none, or nobody can tell."""

    error: str
    available: Literal[False] = False


Hardware: TypeAlias = HardwareFound | HardwareMissing


@dataclass(frozen=True, slots=True, kw_only=True)
class RamFacts:
    """Main memory, in bytes. available is what can be had without swapping (MemAvailable)."""

    total_bytes: int
    available_bytes: int
    swap_total_bytes: int
    swap_free_bytes: int


class HardwareMonitor:
    """Keeps the last report of the devices. One refresh at a time.

    nvml: stays the caller's, who closes it after this.
    cache_s: age up to which a report is good enough. patience_s: longest wait for a fresh one.
    """

    def __init__(self, nvml: Nvml, cache_s: float = 2.0, patience_s: float = 0.05) -> None:
        self._nvml = nvml
        self._cache_s = cache_s
        self._patience_s = patience_s
        self._last = no_devices(GpuState.UNKNOWN, "not read yet")
        self._read_at: float | None = None
        self._refresh: asyncio.Task[None] | None = None
        self._is_closed = False

    async def report(self) -> GpuReport:
        """Return all devices of the machine: fresh within cache_s, or the last known report after a wait of patience_s."""
        if self._is_closed or self._is_fresh():
            return self._last

        if self._refresh is None:
            self._refresh = asyncio.create_task(self._read(), name="read NVIDIA devices")

        await asyncio.wait({self._refresh}, timeout=self._patience_s)
        return self._last

    async def snapshot(self) -> Hardware:
        """Return the block `hardware`. Like `report` in every other way."""
        return to_hardware(await self.report())

    async def close(self) -> None:
        """Stop reading. Later calls return the last report."""
        self._is_closed = True

        if self._refresh is not None:
            self._refresh.cancel()
            await asyncio.wait({self._refresh})

    def _is_fresh(self) -> bool:
        return self._read_at is not None and time.monotonic() - self._read_at < self._cache_s

    async def _read(self) -> None:
        try:
            report = await self._nvml.read_devices()
        finally:
            self._refresh = None

        if report.error and report.error != self._last.error:
            logger.info("[hardware] %s", report.error)

        self._last = report
        self._read_at = time.monotonic()


def to_hardware(report: GpuReport) -> Hardware:
    """Return the report in the shape of `/health`."""
    if not report.available:
        return HardwareMissing(error=report.error or "unknown")

    return HardwareFound(
        driver_path=report.driver_path or "unknown",
        device_count=len(report.devices),
        devices=tuple(_facts(device) for device in report.devices),
    )


def _facts(device: GpuDevice) -> DeviceFacts:
    return DeviceFacts(
        index=device.index,
        name=device.name,
        compute_capability=device.compute_capability,
        vram_total_mb=_mib(device.vram_total_bytes),
        vram_used_mb=_mib(device.vram_used_bytes),
        vram_free_mb=_mib(device.vram_free_bytes),
        qualifying_cuda=device.qualifying_cuda,
    )


def _mib(size_bytes: int | None) -> float | None:
    return None if size_bytes is None else round(size_bytes / _MIB, 1)


def private_memory(pid: int) -> int:
    """Return the bytes of main memory that a process does not share with files or others; 0 when it cannot be seen."""
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:
        return 0

    return max(int(memory.rss - memory.shared), 0)


def read_ram() -> RamFacts:
    """Read main memory, afresh. Takes well under a millisecond."""
    memory = psutil.virtual_memory()
    swap = psutil.swap_memory()
    return RamFacts(
        total_bytes=memory.total,
        available_bytes=memory.available,
        swap_total_bytes=swap.total,
        swap_free_bytes=swap.free,
    )
