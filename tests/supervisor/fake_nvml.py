"""An NVIDIA driver that does what a test says. Stands where pynvml stands: see `supervisor.nvml_library.NvmlLibrary`."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

GIB = 1 << 30
_Value = TypeVar("_Value")


class FakeError(Exception):
    """The root of the library's errors."""


class DriverNotLoadedError(FakeError): ...


class FunctionNotFoundError(FakeError): ...


class GpuIsLostError(FakeError): ...


class LibraryNotFoundError(FakeError): ...


class NoPermissionError(FakeError): ...


class NotFoundError(FakeError): ...


class NotSupportedError(FakeError): ...


class ResetRequiredError(FakeError): ...


class LibraryMismatchError(Exception):
    """Not in the tree of the others: raised for a function that the driver is too old for."""


@dataclass
class FakeMemory:
    """Memory of a device, in bytes."""

    total: int
    used: int
    free: int


@dataclass
class FakeUtilization:
    """How much a device computes, in percent."""

    gpu: int


@dataclass
class FakeProcess:
    """A process on a device. None: the driver does not tell."""

    pid: int
    usedGpuMemory: int | None


@dataclass
class FakeDevice:
    """One GPU. An error beside a question is raised by it. instances: the GPU is in MIG mode; None holds a slot without an instance."""

    name: str = "NVIDIA Test 5000"
    uuid: str = "GPU-aaaa1111-0000-0000-0000-000000000000"
    capability: tuple[int, int] = (8, 9)
    memory: FakeMemory = field(default_factory=lambda: FakeMemory(12 * GIB, 2 * GIB, 10 * GIB))
    utilization: int = 0
    utilization_error: Exception | None = None
    processes: list[FakeProcess] = field(default_factory=list)
    mps_processes: list[FakeProcess] | None = None
    instances: Sequence["FakeDevice | None"] | None = None
    device_error: FakeError | None = None
    memory_error: FakeError | None = None
    capability_error: FakeError | None = None
    process_error: Exception | None = None
    mps_error: Exception = field(default_factory=lambda: NotSupportedError("Not Supported"))


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again, for at most five seconds or so: a thread that was let go needs a moment to leave the call that it was in."""
    for _ in range(1000):
        if await is_so():
            return

        await asyncio.sleep(0.005)

    raise AssertionError("it never became so")


def two_devices() -> list[FakeDevice]:
    """A machine with an old small GPU first on the bus, and a new large one."""
    return [
        FakeDevice(
            name="NVIDIA Old",
            uuid="GPU-aaaa1111-0000-0000-0000-000000000000",
            capability=(7, 5),
            memory=FakeMemory(8 * GIB, 1 * GIB, 7 * GIB),
        ),
        FakeDevice(
            name="NVIDIA New",
            uuid="GPU-bbbb2222-0000-0000-0000-000000000000",
            capability=(12, 0),
            memory=FakeMemory(24 * GIB, 4 * GIB, 20 * GIB),
        ),
    ]


class FakeNvml:
    """The library. `init_error` fails every session; `hang` blocks every question until `release` is set."""

    NVMLError: type[Exception] = FakeError
    NVMLError_DriverNotLoaded: type[Exception] = DriverNotLoadedError
    NVMLError_FunctionNotFound: type[Exception] = FunctionNotFoundError
    NVMLError_GpuIsLost: type[Exception] = GpuIsLostError
    NVMLError_LibraryNotFound: type[Exception] = LibraryNotFoundError
    NVMLError_NoPermission: type[Exception] = NoPermissionError
    NVMLError_NotFound: type[Exception] = NotFoundError
    NVMLError_NotSupported: type[Exception] = NotSupportedError
    NVMLError_ResetRequired: type[Exception] = ResetRequiredError
    NVMLLibraryMismatchError: type[Exception] = LibraryMismatchError

    def __init__(self, devices: Sequence[FakeDevice] = (), init_error: Exception | None = None) -> None:
        self.devices = list(devices)
        self.init_error = init_error
        self.is_hanging = False
        self.release = threading.Event()
        self.entered = threading.Event()
        self.sessions = 0
        self.open_sessions = 0
        self.reads = 0
        self.threads: set[str] = set()

    def load(self) -> "FakeNvml":
        """Stands for the import."""
        return self

    def hang(self) -> None:
        """From now on every question blocks."""
        self.is_hanging = True

    def let_go(self) -> None:
        """Everything that hangs returns, and nothing hangs any more."""
        self.is_hanging = False
        self.release.set()

    def nvmlInit(self) -> None:
        self._enter()

        if self.init_error is not None:
            raise self.init_error

        self.sessions += 1
        self.open_sessions += 1

    def nvmlShutdown(self) -> None:
        self._enter()
        self.open_sessions -= 1

    def nvmlDeviceGetCount(self) -> int:
        self._enter()
        self.reads += 1
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int, /) -> FakeDevice:
        return self._device(self.devices[index])

    def nvmlDeviceGetHandleByUUID(self, uuid: str, /) -> FakeDevice:
        for device in self._everything():
            if device.uuid == uuid:
                return self._device(device)

        raise NotFoundError("Not Found")

    def nvmlDeviceGetName(self, handle: object, /) -> str:
        return self._device(handle).name

    def nvmlDeviceGetUUID(self, handle: object, /) -> str:
        return self._device(handle).uuid

    def nvmlDeviceGetCudaComputeCapability(self, handle: object, /) -> tuple[int, int]:
        device = self._device(handle)
        return _answer(lambda: device.capability, device.capability_error)

    def nvmlDeviceGetMemoryInfo(self, handle: object, /) -> FakeMemory:
        device = self._device(handle)
        return _answer(lambda: device.memory, device.memory_error)

    def nvmlDeviceGetUtilizationRates(self, handle: object, /) -> FakeUtilization:
        device = self._device(handle)
        return _answer(lambda: FakeUtilization(device.utilization), device.utilization_error)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: object, /) -> list[FakeProcess]:
        device = self._device(handle)
        return _answer(lambda: device.processes, device.process_error)

    def nvmlDeviceGetMPSComputeRunningProcesses(self, handle: object, /) -> list[FakeProcess]:
        device = self._device(handle)

        if device.mps_processes is None:
            raise device.mps_error

        return device.mps_processes

    def nvmlDeviceGetMigMode(self, handle: object, /) -> list[int]:
        if self._device(handle).instances is None:
            raise NotSupportedError("Not Supported")

        return [1, 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: object, /) -> int:
        return len(self._device(handle).instances or ())

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: object, index: int, /) -> FakeDevice:
        instance = (self._device(handle).instances or ())[index]

        if instance is None:
            raise NotFoundError("Not Found")

        return instance

    def _everything(self) -> list[FakeDevice]:
        instances = [instance for device in self.devices for instance in device.instances or () if instance is not None]
        return self.devices + instances

    def _device(self, handle: object) -> FakeDevice:
        self._enter()
        assert isinstance(handle, FakeDevice)

        if handle.device_error is not None:
            raise handle.device_error

        return handle

    def _enter(self) -> None:
        self.threads.add(threading.current_thread().name)

        if self.is_hanging:
            self.entered.set()
            self.release.wait()


def _answer(read: Callable[[], _Value], error: Exception | None) -> _Value:
    if error is not None:
        raise error

    return read()
