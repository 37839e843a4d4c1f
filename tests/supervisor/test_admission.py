"""Whether a model fits before it is loaded, and whether its memory is back after it. Real stand-ins, a made-up machine."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from ipc.messages import Delta, Device, DeviceChoice, Finished, GenerationTask, Sampling
from supervisor.child_process import ChildProcess
from supervisor.errors import InsufficientResources, WorkerUnresponsive
from supervisor.host_status import HostState
from supervisor.load_lock import LoadLock
from supervisor.memory_watch import VramRelease
from supervisor.model_host import ModelHost
from supervisor.settings import LoadLockSettings, MemorySettings, ModelRef, SupervisorSettings
from tests.supervisor.fake_nvml import (
    GIB,
    FakeDevice,
    FakeMemory,
    FakeNvml,
    FakeProcess,
    NotSupportedError,
    two_devices,
)
from tests.supervisor.made_up_machine import MadeUpMachine

MakeModel = Callable[..., ModelRef]
MIB = 1 << 20


async def ask(host: ModelHost, model: ModelRef, tokens: int = 0) -> str:
    async with host.turn(model, tokens) as turn:
        answer = [
            message
            async for message in turn.generate(
                GenerationTask(prompt=("x",), max_tokens=16, sampling=Sampling(temperature=0.0))
            )
        ]
        assert isinstance(answer[-1], Finished)
        return "".join(message.text for message in answer if isinstance(message, Delta))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


def sized(make_model: MakeModel, name: str, size: int, **script: Any) -> ModelRef:
    """A model of so many bytes, none of which is written."""
    model = make_model(name, text=["ok"], **script)

    with (model.path / "model.onnx.data").open("wb") as file:
        file.truncate(size)

    return model


@dataclass
class Bench:
    """A host on a made-up machine with one GPU."""

    host: ModelHost
    machine: MadeUpMachine
    gpu: FakeDevice
    driver: FakeNvml

    def occupy(self, size: int, *, is_told: bool = True) -> None:
        """The resident worker takes memory of the GPU. is_told: the driver knows the process."""
        pid = self.host.status().worker_pid
        assert pid is not None
        self.gpu.processes = [FakeProcess(pid, size)] if is_told else []
        self.gpu.memory = FakeMemory(12 * GIB, 2 * GIB + size, 10 * GIB - size)

    def set_free(self, size: int) -> None:
        self.gpu.processes = []
        self.gpu.memory = FakeMemory(12 * GIB, 12 * GIB - size, size)


MakeBench = Callable[..., Bench]


@pytest.fixture
async def make_bench(settings: SupervisorSettings, tmp_path: Path) -> "AsyncIterator[MakeBench]":
    benches: list[Bench] = []

    def make(device: DeviceChoice = DeviceChoice.CUDA, **memory: Any) -> Bench:
        driver = FakeNvml([FakeDevice()])
        machine = MadeUpMachine(driver)
        changed = replace(
            settings,
            device=device,
            memory=MemorySettings(**{"ram_reserve_mb": 0.0, "vram_reserve_mb": 0.0, "release_wait_s": 0.5} | memory),
            load_lock=LoadLockSettings(state_dir=tmp_path / "state"),
        )
        benches.append(Bench(ModelHost(changed, machine), machine, driver.devices[0], driver))
        return benches[-1]

    yield make

    for bench in benches:
        bench.driver.let_go()
        await bench.host.close()
        await bench.machine.nvml.close()


async def test_a_model_that_does_not_fit_into_main_memory_is_refused_with_figures(
    make_bench: MakeBench, make_model: MakeModel, tmp_path: Path
) -> None:
    bench = make_bench(DeviceChoice.CPU, ram_reserve_mb=512.0)
    bench.machine.available = 1 * GIB

    with pytest.raises(InsufficientResources) as caught:
        await ask(bench.host, sized(make_model, "large", 2 * GIB))

    assert caught.value.holder is None
    assert "'large' does not fit: RAM: " in str(caught.value)
    assert "weights 2048.0" in str(caught.value)
    assert "reserve 512.0" in str(caught.value)
    assert "1024.0 MiB available" in str(caught.value)
    assert bench.host.status().generation == 0
    # Nothing is kept of a refusal.
    (await LoadLock(tmp_path / "state").acquire("next", 0)).release()


async def test_a_refusal_does_not_cost_the_resident_model(make_bench: MakeBench, make_model: MakeModel) -> None:
    bench = make_bench(DeviceChoice.CPU)
    small = sized(make_model, "small", 1 * MIB)
    await ask(bench.host, small)
    resident = bench.host.status().worker_pid
    bench.machine.available = 1 * GIB

    with pytest.raises(InsufficientResources):
        await ask(bench.host, sized(make_model, "large", 2 * GIB))

    assert bench.host.status().worker_pid == resident
    assert await ask(bench.host, small) == "ok"


async def test_the_memory_of_the_model_that_leaves_counts(make_bench: MakeBench, make_model: MakeModel) -> None:
    bench = make_bench(DeviceChoice.CPU)
    await ask(bench.host, sized(make_model, "small", 1 * MIB))
    bench.machine.available, bench.machine.private = 1 * GIB, 2 * GIB

    assert await ask(bench.host, sized(make_model, "large", 2 * GIB)) == "ok"


async def test_without_the_check_everything_is_tried(make_bench: MakeBench, make_model: MakeModel) -> None:
    bench = make_bench(is_checked=False)
    bench.machine.available = 0
    assert await ask(bench.host, sized(make_model, "large", 100 * GIB)) == "ok"


async def test_a_model_that_does_not_fit_onto_the_gpu_is_refused(make_bench: MakeBench, make_model: MakeModel) -> None:
    bench = make_bench(vram_reserve_mb=1024.0)
    small = sized(make_model, "small", 1 * MIB, device="cuda")
    await ask(bench.host, small)
    bench.occupy(1 * GIB)
    resident = bench.host.status().worker_pid

    # 9 GiB are free and 1 GiB comes back, of which 1 GiB is to stay free.
    with pytest.raises(InsufficientResources, match=r"VRAM: .*1024\.0 MiB come back from the model that leaves"):
        await ask(bench.host, sized(make_model, "large", 9 * GIB))

    assert bench.host.status().worker_pid == resident
    assert await ask(bench.host, sized(make_model, "fits", 8 * GIB)) == "ok"


async def test_where_the_driver_does_not_know_the_worker_its_estimate_comes_back(
    make_bench: MakeBench, make_model: MakeModel
) -> None:
    bench = make_bench()
    await ask(bench.host, sized(make_model, "one", 6 * GIB, device="cuda"))
    bench.occupy(6 * GIB, is_told=False)
    assert await ask(bench.host, sized(make_model, "two", 7 * GIB)) == "ok"


async def test_auto_falls_to_the_cpu_with_a_warning_and_the_reason(
    make_bench: MakeBench, make_model: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    bench = make_bench(DeviceChoice.AUTO)

    assert await ask(bench.host, sized(make_model, "large", 20 * GIB, device="cuda")) == "ok"
    loaded = bench.host.status().loaded
    assert loaded is not None
    assert loaded.device is Device.CPU
    assert loaded.fallback_reason is not None
    assert "VRAM: " in loaded.fallback_reason
    assert "is loaded on the CPU: VRAM" in caplog.text
    # It is on no GPU, so there is nothing to wait for.
    assert (await bench.host.unload()).vram is None


async def test_auto_that_fits_nowhere_is_refused_for_main_memory(make_bench: MakeBench, make_model: MakeModel) -> None:
    bench = make_bench(DeviceChoice.AUTO)
    bench.machine.available = 1 * GIB

    with pytest.raises(InsufficientResources, match="RAM: "):
        await ask(bench.host, sized(make_model, "large", 20 * GIB))


async def test_unknown_memory_of_a_gpu_refuses_nothing(make_bench: MakeBench, make_model: MakeModel) -> None:
    bench = make_bench()
    bench.gpu.memory_error = NotSupportedError("Not Supported")
    assert await ask(bench.host, sized(make_model, "large", 100 * GIB)) == "ok"


async def test_a_driver_that_hangs_holds_up_no_load(make_bench: MakeBench, make_model: MakeModel) -> None:
    bench = make_bench()
    bench.driver.hang()
    assert await asyncio.wait_for(ask(bench.host, sized(make_model, "large", 100 * GIB, device="cuda")), 5) == "ok"
    assert (await asyncio.wait_for(bench.host.unload(), 5)).model_id == "large"


async def test_a_long_request_needs_more(make_bench: MakeBench, make_model: MakeModel) -> None:
    bench = make_bench()
    model = sized(make_model, "m", 1 * MIB)
    shape = '"decoder": {"num_hidden_layers": 32, "num_key_value_heads": 8, "head_size": 128}'
    (model.path / "genai_config.json").write_text(f'{{"model": {{"context_length": 131072, {shape}}}}}')

    # 128 KiB a token.
    with pytest.raises(InsufficientResources, match=r"KV cache 12500\.0"):
        await ask(bench.host, model, tokens=100_000)

    assert await ask(bench.host, model, tokens=10_000) == "ok"


def shaped(make_model: MakeModel, **script: Any) -> ModelRef:
    """A model of which 2,048 tokens take 256 MiB on a GPU and 512 MiB in main memory."""
    model = sized(make_model, "shaped", 1 * MIB, **script)
    shape = '"decoder": {"num_hidden_layers": 32, "num_key_value_heads": 8, "head_size": 128}'
    (model.path / "genai_config.json").write_text(f'{{"model": {{"context_length": 131072, {shape}}}}}')
    return model


def kept_slots(bench: Bench) -> int:
    worker = bench.host._worker
    assert worker is not None
    return worker.placement.kv_slots


@pytest.mark.parametrize(("available_mb", "slots"), [(2048, 4), (1024, 0)])
async def test_a_model_that_fits_only_without_kept_prefixes_is_loaded_without(
    make_bench: MakeBench, make_model: MakeModel, caplog: pytest.LogCaptureFixture, available_mb: int, slots: int
) -> None:
    bench = make_bench(DeviceChoice.CPU)
    bench.machine.available = available_mb * MIB
    assert await ask(bench.host, shaped(make_model)) == "ok"
    assert kept_slots(bench) == slots
    assert ("'shaped' keeps no prefixes" in caplog.text) == (slots == 0)


@pytest.mark.parametrize("choice", [DeviceChoice.CUDA, DeviceChoice.AUTO])
@pytest.mark.parametrize(("free_mb", "slots"), [(2048, 4), (1024, 0)])
async def test_a_gpu_is_preferred_to_kept_prefixes(
    make_bench: MakeBench, make_model: MakeModel, choice: DeviceChoice, free_mb: int, slots: int
) -> None:
    bench = make_bench(choice)
    bench.set_free(free_mb * MIB)
    assert await ask(bench.host, shaped(make_model, device="cuda")) == "ok"
    assert kept_slots(bench) == slots
    worker = bench.host._worker
    assert worker is not None
    assert worker.gpu is not None
    assert (worker.placement.vram_bytes > 1024 * MIB) == (slots > 0)


@pytest.mark.parametrize(
    ("environment", "name"),
    [({}, "NVIDIA New"), ({"CUDA_VISIBLE_DEVICES": "0"}, "NVIDIA Old"), ({"CUDA_VISIBLE_DEVICES": "7"}, None)],
)
async def test_the_device_is_the_one_that_a_worker_would_use(environment: dict[str, str], name: str | None) -> None:
    machine = MadeUpMachine(FakeNvml(two_devices()), environment)
    device = await machine.cuda_device()
    await machine.nvml.close()
    assert (device.name if device is not None else None) == name


async def test_a_worker_is_told_where_the_libraries_of_cuda_are() -> None:
    machine = MadeUpMachine(FakeNvml(), {"LD_LIBRARY_PATH": "/opt/cuda/lib"})
    assert (await machine.worker_variables())["LD_LIBRARY_PATH"].split(":")[0] == "/opt/cuda/lib"


async def test_a_worker_sees_the_chosen_device_only(make_bench: MakeBench, make_model: MakeModel) -> None:
    bench = make_bench()
    await ask(bench.host, make_model())
    environment = psutil.Process(bench.host.status().worker_pid).environ()
    assert environment["CUDA_VISIBLE_DEVICES"] == bench.gpu.uuid


async def test_an_unload_waits_until_the_memory_is_back_and_says_so(
    make_bench: MakeBench, make_model: MakeModel
) -> None:
    bench = make_bench(release_wait_s=5.0)
    await ask(bench.host, make_model(device="cuda"))
    bench.occupy(4 * GIB)
    loop = asyncio.get_running_loop()
    loop.call_later(0.4, bench.set_free, 10 * GIB)
    before = loop.time()
    report = await bench.host.unload()

    assert report.vram == VramRelease(4 * GIB, is_verified=True)
    assert 0.35 < loop.time() - before < 2


async def test_memory_that_does_not_come_back_is_waited_for_no_longer_than_the_bound(
    make_bench: MakeBench, make_model: MakeModel
) -> None:
    bench = make_bench(release_wait_s=0.3)
    await ask(bench.host, make_model(device="cuda"))
    bench.occupy(4 * GIB)
    # Another program takes some meanwhile: the figure has a sign.
    asyncio.get_running_loop().call_later(0.05, bench.set_free, 5 * GIB)

    try:
        report = await asyncio.wait_for(bench.host.unload(), 3)
    finally:
        # A wait without a bound would hold up the end of the host too, and with it the whole suite.
        bench.set_free(10 * GIB)

    assert report.vram == VramRelease(-1 * GIB, is_verified=False)


async def test_the_next_model_is_started_when_the_memory_is_back(make_bench: MakeBench, make_model: MakeModel) -> None:
    bench = make_bench(release_wait_s=5.0)
    await ask(bench.host, make_model("one", device="cuda"))
    bench.occupy(4 * GIB)
    asking = asyncio.create_task(ask(bench.host, make_model("two", text=["ok"], device="cuda")))
    await asyncio.sleep(0.3)
    assert (bench.host.status().generation, bench.host.status().worker_pid) == (1, None)
    bench.set_free(10 * GIB)
    assert await asking == "ok"


async def test_the_same_after_a_worker_that_died(make_bench: MakeBench, make_model: MakeModel) -> None:
    bench = make_bench(release_wait_s=5.0)
    model = make_model(text=["ok"], device="cuda")
    await ask(bench.host, model)
    bench.occupy(4 * GIB)
    pid = bench.host.status().worker_pid
    assert pid is not None
    os.kill(pid, 9)
    await until(lambda: bench.host.status().worker_pid is None)
    bench.gpu.processes = []
    asking = asyncio.create_task(ask(bench.host, model))
    await asyncio.sleep(0.3)
    assert bench.host.status().generation == 1
    bench.set_free(10 * GIB)
    assert await asking == "ok"


async def test_no_model_is_loaded_beside_a_worker_that_cannot_be_ended(
    make_bench: MakeBench, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench(is_checked=False)
    monkeypatch.setattr(bench.host, "_settings", replace(bench.host._settings, stop_grace_s=0.01, kill_wait_s=0.01))
    model = make_model(text=["ok"], device="cuda")
    await ask(bench.host, model)
    worker = bench.host._worker
    assert worker is not None
    monkeypatch.setattr(worker, "_settings", bench.host._settings)

    with monkeypatch.context() as patch:
        # No process survives SIGKILL on demand, so none is sent.
        patch.setattr(ChildProcess, "_signal_group", lambda _, __: None)

        with pytest.raises(WorkerUnresponsive):
            await bench.host.unload()

    assert bench.host.status().state is HostState.DEGRADED

    with pytest.raises(InsufficientResources, match="cannot be ended"):
        await ask(bench.host, model)

    os.kill(worker.pid, 9)
    await until(lambda: bench.host.status().state is HostState.IDLE)
    assert await ask(bench.host, model) == "ok"
