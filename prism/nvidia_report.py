"""Says what the NVIDIA driver sees, as one JSON line: `python -m prism.nvidia_report`.

A program of its own, because a driver that is half installed can end the process that asks it. Started with a time limit
by `prism.doctor`. Exit status 0 also when there is no driver: that is an answer.
"""

import asyncio
import json
import sys
from typing import TypedDict

from supervisor.gpu_report import GpuDevice, GpuReport
from supervisor.nvml import Nvml


class NvidiaDevice(TypedDict):
    """One device. Memory in MiB; None where the driver does not say."""

    index: int
    name: str
    vram_total_mb: int | None
    vram_free_mb: int | None


class NvidiaReport(TypedDict):
    """What the driver says. error: what could not be read, or None."""

    devices: list[NvidiaDevice]
    error: str | None


def main() -> None:
    """Write the report to stdout."""
    sys.stdout.write(json.dumps(as_report(asyncio.run(_ask_driver()))) + "\n")


def as_report(seen: GpuReport) -> NvidiaReport:
    """Take what the diagnosis shows."""
    return NvidiaReport(devices=[_device(device) for device in seen.devices], error=seen.error)


async def _ask_driver() -> GpuReport:
    driver = Nvml()

    try:
        return await driver.read_devices()
    finally:
        await driver.close()


def _device(device: GpuDevice) -> NvidiaDevice:
    return NvidiaDevice(
        index=device.index,
        name=device.name,
        vram_total_mb=_mebibytes(device.vram_total_bytes),
        vram_free_mb=_mebibytes(device.vram_free_bytes),
    )


def _mebibytes(amount: int | None) -> int | None:
    return None if amount is None else amount >> 20


if __name__ == "__main__":
    main()
