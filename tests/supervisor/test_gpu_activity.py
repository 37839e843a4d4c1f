"""Work on a GPU as a sign of life: a call that waits for one is no deadlock, and a driver that hangs costs nobody anything."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from ipc.messages import DeviceChoice
from supervisor import gpu_activity
from supervisor.background import Background
from supervisor.errors import WorkerUnresponsive
from supervisor.gpu_activity import GpuActivity
from supervisor.gpu_report import GpuDevice
from supervisor.memory_gauge import RamGauge
from supervisor.model_host import ModelHost
from supervisor.settings import MemorySettings, SupervisorSettings
from supervisor.watch_bounds import WatchBounds
from tests.supervisor.fake_nvml import FakeDevice, FakeNvml, NotSupportedError, until
from tests.supervisor.host_talk import MakeModel, ask
from tests.supervisor.made_up_machine import MadeUpMachine

UUID = FakeDevice().uuid
GPU = GpuDevice(
    index=0,
    name="NVIDIA Test",
    uuid=UUID,
    compute_capability="8.9",
    vram_total_bytes=None,
    vram_used_bytes=None,
    vram_free_bytes=None,
)
SHORT = WatchBounds(interval_s=0.05, request_stall_s=0.5)
# Silent and without any CPU time for longer than the bound, as a call that waits for a GPU.
WAITS = "@stand-in " + json.dumps({"text": ["a", "b"], "delay_s": 1.2})


class Gauge(RamGauge):
    """Tells what it is told to."""

    def __init__(self) -> None:
        self.is_busy = True
        self.asked = 0

    async def is_computing(self, device_uuid: str) -> bool:
        self.asked += 1
        assert device_uuid == UUID
        return self.is_busy


async def test_the_answer_is_that_of_the_look_before() -> None:
    background, gauge = Background(), Gauge()
    activity = GpuActivity(GPU, gauge, background)
    assert not activity.is_busy()
    await background.close()
    gauge.is_busy = False
    assert activity.is_busy()
    await background.close()
    assert not activity.is_busy()
    await background.close()


async def test_an_answer_that_is_old_counts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    background = Background()
    activity = GpuActivity(GPU, Gauge(), background)
    activity.is_busy()
    await background.close()
    monkeypatch.setattr(gpu_activity, "MAX_AGE_S", -1.0)
    assert not activity.is_busy()
    await background.close()


async def test_one_look_at_a_time_and_none_without_a_gpu() -> None:
    background, gauge = Background(), Gauge()
    activity = GpuActivity(GPU, gauge, background)

    for _ in range(5):
        activity.is_busy()

    assert not GpuActivity(None, gauge, background).is_busy()
    await background.close()
    assert gauge.asked == 1


@dataclass
class Bench:
    """A host with one made-up GPU."""

    host: ModelHost
    driver: FakeNvml

    @property
    def gpu(self) -> FakeDevice:
        return self.driver.devices[0]


@pytest.fixture
async def bench(settings: SupervisorSettings) -> AsyncIterator[Bench]:
    driver = FakeNvml([FakeDevice()])
    machine = MadeUpMachine(driver)
    changed = replace(settings, device=DeviceChoice.CUDA, memory=MemorySettings(is_checked=False, release_wait_s=0.1))
    bench = Bench(ModelHost(replace(changed, watch=SHORT), machine), driver)
    yield bench
    driver.let_go()
    await bench.host.close()
    await machine.nvml.close()


async def test_a_call_that_waits_for_its_gpu_is_left_alone(bench: Bench, make_model: MakeModel) -> None:
    bench.gpu.utilization = 87
    assert await ask(bench.host, make_model(device="cuda"), WAITS) == "ab"


async def test_the_same_call_beside_an_idle_gpu_is_a_hang(bench: Bench, make_model: MakeModel) -> None:
    with pytest.raises(WorkerUnresponsive):
        await ask(bench.host, make_model(device="cuda"), WAITS)


async def test_a_busy_gpu_is_no_excuse_for_a_worker_on_the_cpu(bench: Bench, make_model: MakeModel) -> None:
    bench.gpu.utilization = 87

    with pytest.raises(WorkerUnresponsive):
        await ask(bench.host, make_model(device="cpu"), WAITS)


async def test_a_driver_that_hangs_keeps_no_hang_from_being_found(bench: Bench, make_model: MakeModel) -> None:
    model = make_model(device="cuda")
    await ask(bench.host, model)
    bench.gpu.utilization = 87
    bench.driver.hang()

    with pytest.raises(WorkerUnresponsive):
        await asyncio.wait_for(ask(bench.host, model, WAITS), 10)


async def test_nvml_tells_what_it_can() -> None:
    driver = FakeNvml([FakeDevice()])
    machine = MadeUpMachine(driver)
    nvml = machine.nvml
    assert await nvml.is_busy(UUID) is False
    driver.devices[0].utilization = 1
    assert await nvml.is_busy(UUID) is True
    assert await nvml.is_busy("GPU-nowhere") is None
    driver.devices[0].utilization_error = NotSupportedError("Not Supported")
    assert await nvml.is_busy(UUID) is None
    assert await machine.is_computing(UUID) is False
    driver.hang()
    assert await nvml.is_busy(UUID) is None
    driver.let_go()
    driver.devices[0].utilization_error = None

    async def answers() -> bool:
        return await nvml.is_busy(UUID) is True

    await until(answers)
    await nvml.close()
