"""What of the library of the NVIDIA driver is used, as types: `supervisor.nvml` asks it, and tests put another in its place."""

from collections.abc import Sequence
from typing import Protocol


class MemoryInfo(Protocol):
    """Memory of a device, in bytes."""

    total: int
    used: int
    free: int


class ProcessInfo(Protocol):
    """One process on a device. usedGpuMemory is None where the driver does not tell (WSL, WDDM)."""

    pid: int
    usedGpuMemory: int | None


class Utilization(Protocol):
    """How much of the time since the driver's last look a device computed, in percent."""

    gpu: int


class NvmlLibrary(Protocol):
    """What of pynvml is used here."""

    NVMLError: type[Exception]
    NVMLError_DriverNotLoaded: type[Exception]
    NVMLError_FunctionNotFound: type[Exception]
    NVMLError_GpuIsLost: type[Exception]
    NVMLError_LibraryNotFound: type[Exception]
    NVMLError_NoPermission: type[Exception]
    NVMLError_NotFound: type[Exception]
    NVMLError_NotSupported: type[Exception]
    NVMLError_ResetRequired: type[Exception]
    NVMLLibraryMismatchError: type[Exception]

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int, /) -> object: ...
    def nvmlDeviceGetHandleByUUID(self, uuid: str, /) -> object: ...
    def nvmlDeviceGetName(self, handle: object, /) -> str: ...
    def nvmlDeviceGetUUID(self, handle: object, /) -> str: ...
    def nvmlDeviceGetCudaComputeCapability(self, handle: object, /) -> tuple[int, int]: ...
    def nvmlDeviceGetMemoryInfo(self, handle: object, /) -> MemoryInfo: ...
    def nvmlDeviceGetUtilizationRates(self, handle: object, /) -> Utilization: ...
    def nvmlDeviceGetComputeRunningProcesses(self, handle: object, /) -> Sequence[ProcessInfo]: ...
    def nvmlDeviceGetMPSComputeRunningProcesses(self, handle: object, /) -> Sequence[ProcessInfo]: ...
    def nvmlDeviceGetMigMode(self, handle: object, /) -> Sequence[int]: ...
    def nvmlDeviceGetMaxMigDeviceCount(self, handle: object, /) -> int: ...
    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: object, index: int, /) -> object: ...
