"""What the driver says, and what we say when it does not."""

import ast
import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

import supervisor
from supervisor.gpu_report import GpuReport, GpuState
from supervisor.nvml import Nvml, import_pynvml, mapped_library
from supervisor.nvml_library import NvmlLibrary
from tests.supervisor.fake_nvml import (
    GIB,
    DriverNotLoadedError,
    FakeDevice,
    FakeError,
    FakeMemory,
    FakeNvml,
    FakeProcess,
    FunctionNotFoundError,
    GpuIsLostError,
    LibraryMismatchError,
    LibraryNotFoundError,
    NoPermissionError,
    NotSupportedError,
    ResetRequiredError,
    two_devices,
    until,
)

_DEADLINE_S = 0.2
Open = Callable[[FakeNvml], Nvml]


@pytest.fixture
async def open_nvml() -> AsyncIterator[Open]:
    """Return a function that opens a session with a driver; all are closed at the end, and what hangs is let go."""
    opened: list[tuple[Nvml, FakeNvml]] = []

    def open_one(driver: FakeNvml) -> Nvml:
        nvml = Nvml(driver.load, _DEADLINE_S)
        opened.append((nvml, driver))
        return nvml

    yield open_one

    for nvml, driver in opened:
        driver.let_go()
        await nvml.close()

    for thread in threading.enumerate():
        if thread.name == "prism-nvml":
            thread.join(5.0)


async def test_two_devices_are_reported_with_every_figure(open_nvml: Open) -> None:
    report = await open_nvml(FakeNvml(two_devices())).read_devices()

    assert report.available
    assert report.error is None
    assert report.driver_path == "libnvidia-ml.so.1"
    old, new = report.devices
    assert (old.index, old.name, old.uuid) == (0, "NVIDIA Old", "GPU-aaaa1111-0000-0000-0000-000000000000")
    assert (old.compute_capability, new.compute_capability) == ("7.5", "12.0")
    assert (new.vram_total_bytes, new.vram_used_bytes, new.vram_free_bytes) == (24 * GIB, 4 * GIB, 20 * GIB)
    assert (old.qualifying_cuda, new.qualifying_cuda) == (True, True)


async def test_every_question_is_asked_in_the_helper_thread(open_nvml: Open) -> None:
    driver = FakeNvml(two_devices())
    nvml = open_nvml(driver)
    await nvml.read_devices()
    await nvml.process_memory(1, driver.devices[0].uuid)
    await nvml.free_memory(driver.devices[0].uuid)
    await nvml.close()

    assert driver.threads == {"prism-nvml"}


async def test_one_session_serves_many_questions_and_is_closed(open_nvml: Open) -> None:
    driver = FakeNvml(two_devices())
    nvml = open_nvml(driver)

    for _ in range(5):
        await nvml.read_devices()

    assert (driver.reads, driver.sessions) == (5, 1)
    await nvml.close()
    assert driver.open_sessions == 0


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (LibraryNotFoundError("NVML Shared Library Not Found"), GpuState.ABSENT),
        (DriverNotLoadedError("Driver Not Loaded"), GpuState.ABSENT),
        (NoPermissionError("Insufficient Permissions"), GpuState.UNKNOWN),
        (GpuIsLostError("GPU is lost"), GpuState.LOST),
        (ResetRequiredError("GPU requires restart"), GpuState.LOST),
        (FakeError("Driver/library version mismatch"), GpuState.UNKNOWN),
        (OSError("cannot map"), GpuState.UNKNOWN),
    ],
)
async def test_a_failed_session_is_an_answer_and_the_next_one_may_succeed(
    open_nvml: Open, error: Exception, state: GpuState
) -> None:
    driver = FakeNvml(two_devices(), init_error=error)
    nvml = open_nvml(driver)
    report = await nvml.read_devices()

    assert (report.state, report.error, report.devices) == (state, f"NVML: {error}", ())
    assert await nvml.process_memory(1, driver.devices[0].uuid) is None
    assert await nvml.free_memory(driver.devices[0].uuid) is None

    driver.init_error = None
    assert (await nvml.read_devices()).available


async def test_a_missing_binding_is_an_answer() -> None:
    def fail() -> NvmlLibrary:
        raise ModuleNotFoundError("No module named 'pynvml'")

    nvml = Nvml(fail, 5.0)
    report = await nvml.read_devices()
    await nvml.close()

    assert (report.state, report.error) == (GpuState.UNKNOWN, "NVML: No module named 'pynvml'")


async def test_a_driver_that_sees_no_device_says_so(open_nvml: Open) -> None:
    report = await open_nvml(FakeNvml()).read_devices()

    assert (report.state, report.error) == (GpuState.ABSENT, "the NVIDIA driver sees no device")


@pytest.mark.parametrize("error", [NotSupportedError(), NoPermissionError(), FunctionNotFoundError()])
async def test_figures_that_the_driver_withholds_are_none_and_the_device_stays(
    open_nvml: Open, error: FakeError
) -> None:
    driver = FakeNvml([FakeDevice(memory_error=error, capability_error=error)])
    nvml = open_nvml(driver)
    (device,) = (await nvml.read_devices()).devices

    assert (device.vram_total_bytes, device.vram_used_bytes, device.vram_free_bytes) == (None, None, None)
    assert device.compute_capability is None
    assert not device.qualifying_cuda
    assert await nvml.free_memory(device.uuid) is None


async def test_a_gpu_lost_on_the_way_does_not_hide_the_other_and_comes_back(open_nvml: Open) -> None:
    driver = FakeNvml(two_devices())
    nvml = open_nvml(driver)
    assert len((await nvml.read_devices()).devices) == 2

    driver.devices[1].memory_error = GpuIsLostError("GPU is lost")
    report = await nvml.read_devices()
    assert report.available
    assert [device.name for device in report.devices] == ["NVIDIA Old"]
    assert report.error == "GPU 1: GPU is lost"

    driver.devices[1].memory_error = None
    report = await nvml.read_devices()
    assert (len(report.devices), report.error) == (2, None)
    # Only a new session sees a device that was reset.
    assert (driver.sessions, driver.open_sessions) == (2, 1)


async def test_when_every_gpu_is_lost_the_report_says_lost(open_nvml: Open) -> None:
    driver = FakeNvml(two_devices())
    nvml = open_nvml(driver)
    await nvml.read_devices()

    for device in driver.devices:
        device.device_error = GpuIsLostError("GPU is lost")

    report = await nvml.read_devices()
    assert (report.state, report.error) == (GpuState.LOST, "GPU 0: GPU is lost; GPU 1: GPU is lost")


async def test_what_may_be_there_is_not_called_lost(open_nvml: Open) -> None:
    driver = FakeNvml(two_devices())
    driver.devices[0].device_error = GpuIsLostError("GPU is lost")
    driver.devices[1].device_error = NoPermissionError("Insufficient Permissions")

    assert (await open_nvml(driver).read_devices()).state is GpuState.UNKNOWN


async def test_a_gpu_in_mig_mode_is_reported_as_its_instances(open_nvml: Open) -> None:
    small = FakeDevice(name="MIG 1g.5gb", uuid="MIG-1", memory=FakeMemory(5 * GIB, 0, 5 * GIB))
    driver = FakeNvml([FakeDevice(name="whole", capability=(9, 0), instances=[None, small]), *two_devices()[1:]])
    nvml = open_nvml(driver)
    report = await nvml.read_devices()

    assert [(device.index, device.uuid) for device in report.devices] == [
        (0, "MIG-1"),
        (1, "GPU-bbbb2222-0000-0000-0000-000000000000"),
    ]
    assert report.devices[0].compute_capability == "9.0"
    assert report.devices[0].vram_total_bytes == 5 * GIB
    assert await nvml.free_memory("MIG-1") == 5 * GIB


async def test_mig_without_an_instance_leaves_nothing_to_run_on(open_nvml: Open) -> None:
    report = await open_nvml(FakeNvml([FakeDevice(instances=[None, None])])).read_devices()

    assert (report.state, report.error) == (GpuState.ABSENT, "GPU 0: MIG is on, but there is no instance")


async def test_memory_of_a_process_is_told_per_device(open_nvml: Open) -> None:
    driver = FakeNvml(two_devices())
    nvml = open_nvml(driver)
    first, second = (device.uuid for device in driver.devices)
    driver.devices[0].processes = [FakeProcess(7, 3 * GIB), FakeProcess(8, 1 * GIB)]
    driver.devices[1].processes = [FakeProcess(9, None)]
    driver.devices[1].mps_processes = [FakeProcess(10, 2 * GIB)]

    assert await nvml.process_memory(7, first) == 3 * GIB
    assert await nvml.process_memory(9, second) is None
    assert await nvml.process_memory(10, second) == 2 * GIB
    assert await nvml.process_memory(7, second) == 0
    assert await nvml.process_memory(7, "GPU-gone") is None
    assert await nvml.free_memory("GPU-gone") is None


@pytest.mark.parametrize("error", [LibraryMismatchError(), FunctionNotFoundError(), NoPermissionError()])
async def test_a_driver_without_the_second_list_still_has_the_first(open_nvml: Open, error: Exception) -> None:
    driver = FakeNvml([FakeDevice(processes=[FakeProcess(7, 3 * GIB)], mps_error=error)])
    nvml = open_nvml(driver)

    assert await nvml.process_memory(7, driver.devices[0].uuid) == 3 * GIB
    assert await nvml.process_memory(8, driver.devices[0].uuid) == 0


async def test_a_process_in_two_instances_counts_both(open_nvml: Open) -> None:
    driver = FakeNvml([FakeDevice(processes=[FakeProcess(7, 3 * GIB), FakeProcess(7, 1 * GIB)])])

    assert await open_nvml(driver).process_memory(7, driver.devices[0].uuid) == 4 * GIB


@pytest.mark.parametrize("error", [NotSupportedError(), GpuIsLostError(), FakeError("?"), LibraryMismatchError()])
async def test_a_process_list_that_cannot_be_read_is_none_not_zero(open_nvml: Open, error: Exception) -> None:
    driver = FakeNvml([FakeDevice(process_error=error)])

    assert await open_nvml(driver).process_memory(7, driver.devices[0].uuid) is None


async def test_a_driver_that_hangs_costs_one_deadline_once_and_one_thread(open_nvml: Open) -> None:
    driver = FakeNvml(two_devices())
    driver.hang()
    nvml = open_nvml(driver)
    began = time.monotonic()
    report = await nvml.read_devices()
    waited = time.monotonic() - began

    assert (report.state, report.error) == (GpuState.UNKNOWN, "NVML does not answer")
    assert _DEADLINE_S <= waited < _DEADLINE_S + 1

    began = time.monotonic()
    asked: list[Awaitable[GpuReport | int | None]] = [nvml.read_devices() for _ in range(10)]
    asked += [nvml.process_memory(1, "GPU-x"), nvml.free_memory("GPU-x")]
    answers = await asyncio.gather(*asked)
    assert time.monotonic() - began < _DEADLINE_S
    assert answers == [report] * 10 + [None, None]
    assert sum(thread.name == "prism-nvml" for thread in threading.enumerate()) == 1


async def test_a_driver_that_comes_back_is_asked_again(open_nvml: Open) -> None:
    driver = FakeNvml(two_devices())
    nvml = open_nvml(driver)
    await nvml.read_devices()
    driver.hang()
    assert not (await nvml.read_devices()).available
    driver.let_go()

    async def is_back() -> bool:
        return (await nvml.read_devices()).available

    await until(is_back)


async def test_questions_after_close_are_answered_with_nothing(open_nvml: Open) -> None:
    nvml = open_nvml(FakeNvml(two_devices()))
    await nvml.close()

    assert (await nvml.read_devices()).state is GpuState.UNKNOWN
    assert await nvml.free_memory("GPU-x") is None


async def test_the_real_binding_answers_on_any_machine() -> None:
    nvml = Nvml()
    report = await nvml.read_devices()
    await nvml.close()

    assert report.available or report.error


def test_the_real_binding_has_everything_that_we_use() -> None:
    library = import_pynvml()
    functions = [name for name in vars(NvmlLibrary) if name.startswith("nvml")]
    errors = [name for name in NvmlLibrary.__annotations__ if name.startswith("NVMLError")]
    assert len(errors) == 9
    assert issubclass(vars(library)["NVMLLibraryMismatchError"], Exception)

    assert len(functions) == 15
    assert all(callable(vars(library)[name]) for name in functions)
    assert all(issubclass(vars(library)[name], vars(library)["NVMLError"]) for name in errors)


def test_the_binding_is_not_imported_with_our_modules() -> None:
    program = "import sys, supervisor.hardware, supervisor.cuda_probe; print('pynvml' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True)

    assert done.stdout == "False\n"


def test_no_module_of_this_part_but_one_names_the_binding() -> None:
    ours = ["deadline_thread", "gpu_report", "visible_devices", "hardware", "cuda_probe", "memory_budget", "nvml"]
    folder = Path(supervisor.__file__).parent
    found = []

    for name in ours:
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            found += [name for imported in names if imported == "pynvml"]

    assert found == ["nvml"]


@pytest.mark.parametrize(
    ("maps", "path"),
    [
        ("", None),
        ("7f00-7f01 r-xp 00000000 08:01 12   /usr/lib/libc.so.6\n7f01-7f02 rw-p 00000000 00:00 0  [heap]\n", None),
        ("7f00-7f01 r-xp 0 08:01 1   /usr/lib/wsl/lib/libnvidia-ml.so.1\n", "/usr/lib/wsl/lib/libnvidia-ml.so.1"),
        ("7f00-7f01 r-xp 0 08:01 1   /usr/lib/libnvidia-ml.so.550.1 (deleted)\n", "/usr/lib/libnvidia-ml.so.550.1"),
        ("7f00-7f01 r-xp 0 08:01 1   /srv/libnvidia-ml.so.1/other.so\n", None),
    ],
)
def test_the_path_of_the_driver_is_read_from_what_is_mapped(maps: str, path: str | None) -> None:
    assert mapped_library(maps) == path
