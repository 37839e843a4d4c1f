"""The machine as /health shows it, whatever the driver does."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import FrozenInstanceError

import msgspec
import pytest

from supervisor.gpu_report import GpuState
from supervisor.hardware import HardwareFound, HardwareMissing, HardwareMonitor, read_ram
from supervisor.nvml import Nvml
from tests.supervisor.fake_nvml import (
    FakeDevice,
    FakeMemory,
    FakeNvml,
    GpuIsLostError,
    LibraryNotFoundError,
    NotSupportedError,
    two_devices,
    until,
)

_NOT_READ_YET = HardwareMissing(error="not read yet")
_NO_ANSWER = HardwareMissing(error="NVML does not answer")
Watch = Callable[..., HardwareMonitor]


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    """Return a function that watches a driver; everything is closed at the end, and what hangs is let go."""
    opened: list[tuple[HardwareMonitor, Nvml, FakeNvml]] = []

    def watch_one(
        driver: FakeNvml, cache_s: float = 60.0, patience_s: float = 5.0, deadline_s: float = 5.0
    ) -> HardwareMonitor:
        nvml = Nvml(driver.load, deadline_s)
        monitor = HardwareMonitor(nvml, cache_s, patience_s)
        opened.append((monitor, nvml, driver))
        return monitor

    yield watch_one

    for monitor, nvml, driver in opened:
        await monitor.close()
        driver.let_go()
        await nvml.close()

    for thread in threading.enumerate():
        if thread.name == "prism-nvml":
            thread.join(5.0)


async def test_the_block_has_the_documented_fields_and_figures(watch: Watch) -> None:
    device = FakeDevice(memory=FakeMemory(12_878_610_432, 1_234_567_890, 11_644_042_542))
    block = await watch(FakeNvml([device])).snapshot()

    assert json.loads(msgspec.json.encode(block)) == {
        "available": True,
        "driver_path": "libnvidia-ml.so.1",
        "device_count": 1,
        "devices": [
            {
                "index": 0,
                "name": "NVIDIA Test 5000",
                "compute_capability": "8.9",
                "vram_total_mb": 12282.0,
                "vram_used_mb": 1177.4,
                "vram_free_mb": 11104.6,
                "qualifying_cuda": True,
            }
        ],
    }


async def test_without_a_driver_the_block_says_why(watch: Watch) -> None:
    block = await watch(FakeNvml(init_error=LibraryNotFoundError("NVML Shared Library Not Found"))).snapshot()

    assert json.loads(msgspec.json.encode(block)) == {
        "available": False,
        "error": "NVML: NVML Shared Library Not Found",
    }


async def test_figures_that_the_driver_withholds_are_null(watch: Watch) -> None:
    block = await watch(FakeNvml([FakeDevice(memory_error=NotSupportedError())])).snapshot()

    assert isinstance(block, HardwareFound)
    assert (block.devices[0].vram_total_mb, block.devices[0].vram_free_mb) == (None, None)


async def test_b16_the_driver_is_asked_once_within_the_age_of_the_cache(watch: Watch) -> None:
    driver = FakeNvml(two_devices())
    monitor = watch(driver)
    blocks = [await monitor.snapshot() for _ in range(20)]
    driver.devices.pop()

    assert (driver.reads, driver.sessions) == (1, 1)
    assert await monitor.snapshot() == blocks[0]


async def test_b16_a_caller_cannot_change_the_cache(watch: Watch) -> None:
    monitor = watch(FakeNvml(two_devices()))
    block = await monitor.snapshot()
    assert isinstance(block, HardwareFound)

    with pytest.raises(FrozenInstanceError):
        block.device_count = 0  # type: ignore[misc]  # the attempt is the point

    with pytest.raises(FrozenInstanceError):
        block.devices[0].name = "x"  # type: ignore[misc]  # the attempt is the point

    assert isinstance(block.devices, tuple)
    assert await monitor.snapshot() == block


async def test_an_old_report_is_read_again(watch: Watch) -> None:
    driver = FakeNvml(two_devices())
    monitor = watch(driver, cache_s=0.0)
    await monitor.snapshot()
    driver.devices.pop()
    block = await monitor.snapshot()

    assert isinstance(block, HardwareFound)
    assert (block.device_count, driver.reads) == (1, 2)


async def test_callers_at_the_same_moment_share_one_refresh(watch: Watch) -> None:
    driver = FakeNvml(two_devices())
    monitor = watch(driver, cache_s=0.0)
    blocks = await asyncio.gather(*(monitor.snapshot() for _ in range(50)))

    assert driver.reads == 1
    assert len(set(blocks)) == 1


async def test_a_caller_that_leaves_does_not_stop_the_refresh_of_the_others(watch: Watch) -> None:
    driver = FakeNvml(two_devices())
    driver.hang()
    monitor = watch(driver)
    first, second = asyncio.create_task(monitor.snapshot()), asyncio.create_task(monitor.snapshot())
    await asyncio.to_thread(driver.entered.wait)
    first.cancel()
    driver.let_go()

    assert (await second).available


async def test_f33_a_hanging_driver_never_holds_up_an_answer_or_the_loop(watch: Watch) -> None:
    driver = FakeNvml(two_devices())
    driver.hang()
    monitor = watch(driver, cache_s=2.0, patience_s=0.05, deadline_s=0.3)
    slowest = longest_pause = 0.0
    seen = []
    began = last_beat = time.monotonic()

    async def beat() -> None:
        nonlocal last_beat, longest_pause
        while True:
            await asyncio.sleep(0.001)
            now = time.monotonic()
            longest_pause = max(longest_pause, now - last_beat)
            last_beat = now

    heart = asyncio.create_task(beat())

    while time.monotonic() - began < 0.6:
        asked = time.monotonic()
        seen.append(await monitor.snapshot())
        slowest = max(slowest, time.monotonic() - asked)
        await asyncio.sleep(0.002)

    heart.cancel()
    assert slowest < 0.1
    assert longest_pause < 0.1
    # First nothing is known, then that nobody answers; and that is cached too.
    assert list(dict.fromkeys(seen)) == [_NOT_READ_YET, _NO_ANSWER]


async def test_f33_a_driver_that_hangs_later_leaves_the_last_report_until_the_deadline(watch: Watch) -> None:
    driver = FakeNvml(two_devices())
    monitor = watch(driver, cache_s=0.0, patience_s=0.01, deadline_s=0.3)

    async def is_available() -> bool:
        return (await monitor.snapshot()).available

    async def is_silent() -> bool:
        return await monitor.snapshot() == _NO_ANSWER

    await until(is_available)
    first = await monitor.snapshot()
    driver.hang()
    assert await monitor.snapshot() == first

    await until(is_silent)
    driver.let_go()
    await until(is_available)
    assert await monitor.snapshot() == first


async def test_f31_a_gpu_that_is_lost_is_seen_at_the_next_refresh(watch: Watch) -> None:
    driver = FakeNvml(two_devices()[:1])
    monitor = watch(driver, cache_s=0.0)
    assert (await monitor.snapshot()).available
    driver.devices[0].device_error = GpuIsLostError("GPU is lost")

    assert await monitor.snapshot() == HardwareMissing(error="GPU 0: GPU is lost")
    assert (await monitor.report()).state is GpuState.LOST


async def test_the_same_trouble_is_logged_once(watch: Watch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "supervisor.hardware")
    monitor = watch(FakeNvml(init_error=LibraryNotFoundError("no library")), cache_s=0.0)

    for _ in range(5):
        await monitor.snapshot()

    assert [record.getMessage() for record in caplog.records] == ["[hardware] NVML: no library"]


async def test_nothing_is_read_after_close(watch: Watch) -> None:
    driver = FakeNvml(two_devices())
    monitor = watch(driver, cache_s=0.0)
    block = await monitor.snapshot()
    await monitor.close()
    await monitor.close()

    assert await monitor.snapshot() == block
    assert driver.reads == 1


async def test_close_during_a_refresh_ends_it(watch: Watch) -> None:
    driver = FakeNvml(two_devices())
    driver.hang()
    monitor = watch(driver, patience_s=0.01)
    assert await monitor.snapshot() == _NOT_READ_YET
    began = time.monotonic()
    await monitor.close()

    assert time.monotonic() - began < 1.0
    assert await monitor.snapshot() == _NOT_READ_YET


def test_main_memory_is_what_the_kernel_says() -> None:
    with open("/proc/meminfo") as file:
        kernel = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in file}

    ram = read_ram()
    assert ram.total_bytes == kernel["MemTotal"]
    assert ram.swap_total_bytes == kernel["SwapTotal"]
    assert abs(ram.available_bytes - kernel["MemAvailable"]) < 1 << 30
    assert 0 <= ram.swap_free_bytes <= ram.swap_total_bytes
