"""The one file that imports pynvml: memory of the NVIDIA devices and of processes on them.

Used by the front in its event loop. Every call into the driver runs in one helper thread with a deadline (`supervisor.deadline_thread`):
it may hang for ever when a GPU is lost. Nothing here raises: a missing driver, a refusal, a lost device are answers. The library is
imported with the first question, so that the start of the front does not pay for it.
"""

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from supervisor.deadline_thread import DeadlineThread, NoAnswer
from supervisor.gpu_report import GpuDevice, GpuReport, GpuState, no_devices
from supervisor.nvml_library import NvmlLibrary

_SONAME = "libnvidia-ml.so.1"
# Under WSL the driver is here, and a library of that name in the usual folders is of no use.
_WSL_LIBRARY = Path("/usr/lib/wsl/lib") / _SONAME
_MIG_ENABLED = 1
_Value = TypeVar("_Value")


def import_pynvml() -> NvmlLibrary:
    """Import the binding; it loads the driver's library at its first call, by soname. Raises ImportError."""
    import pynvml

    if _WSL_LIBRARY.exists():
        # Once loaded by its path, the library is also the one that is found by its soname.
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(_WSL_LIBRARY))

    library: NvmlLibrary = pynvml
    return library


class Nvml:
    """The driver's answers. Needs a running event loop; `close` ends its thread.

    deadline_s: longest wait for the driver; past it, and as long as it hangs, the answer is "unavailable".
    """

    def __init__(self, load_library: Callable[[], NvmlLibrary] = import_pynvml, deadline_s: float = 2.0) -> None:
        self._load_library = load_library
        self._thread = DeadlineThread("prism-nvml", deadline_s)
        # Both belong to the helper thread.
        self._library: NvmlLibrary | None = None
        self._is_initialised = False

    async def read_devices(self) -> GpuReport:
        """Return all devices of the machine, read afresh (no cache)."""
        try:
            return await self._thread.call(self._read_devices)
        except NoAnswer:
            return no_devices(GpuState.UNKNOWN, "NVML does not answer")

    async def process_memory(self, pid: int, device_uuid: str) -> int | None:
        """Return the bytes that a process holds on a device; 0 when the driver lists no such process, None when it does not tell.

        0 is no proof inside a container with pids of its own: the driver may know the process under the host's number.
        """
        try:
            return await self._thread.call(lambda: self._process_memory(pid, device_uuid))
        except NoAnswer:
            return None

    async def free_memory(self, device_uuid: str) -> int | None:
        """Return the free bytes of a device, None when nobody tells."""
        try:
            return await self._thread.call(lambda: self._free_memory(device_uuid))
        except NoAnswer:
            return None

    async def is_busy(self, device_uuid: str) -> bool | None:
        """Say whether a device computes just now, for anybody; None when nobody tells (a MIG instance, for example)."""
        try:
            return await self._thread.call(lambda: self._is_busy(device_uuid))
        except NoAnswer:
            return None

    async def close(self) -> None:
        """End the session and the thread. Bounded by two deadlines; a hung thread is left to itself."""
        if self._thread.is_started:
            with contextlib.suppress(NoAnswer):
                await self._thread.call(self._end_session)

        await self._thread.close()

    def _session(self) -> NvmlLibrary:
        """Return the library, initialised. One session serves many calls: to initialise costs up to a second on some machines."""
        if self._library is None:
            self._library = self._load_library()

        if not self._is_initialised:
            self._library.nvmlInit()
            self._is_initialised = True

        return self._library

    def _end_session(self) -> None:
        if self._library is not None and self._is_initialised:
            self._is_initialised = False

            with contextlib.suppress(self._library.NVMLError):
                self._library.nvmlShutdown()

    def _read_devices(self) -> GpuReport:
        try:
            report = _read_report(self._session())
        except Exception as error:  # a foreign library in an unknown state: whatever it raises is our answer
            report = no_devices(_state_after(self._library, error), f"NVML: {error}")

        if report.error:
            # A device that was lost and a driver that was replaced are seen again only by a new session.
            self._end_session()

        return report

    def _process_memory(self, pid: int, device_uuid: str) -> int | None:
        try:
            library = self._session()
            return _process_memory(library, library.nvmlDeviceGetHandleByUUID(device_uuid), pid)
        except Exception:  # as above; the reasons are told by `read_devices`
            return None

    def _is_busy(self, device_uuid: str) -> bool | None:
        try:
            library = self._session()
            return library.nvmlDeviceGetUtilizationRates(library.nvmlDeviceGetHandleByUUID(device_uuid)).gpu > 0
        except Exception:  # as above
            return None

    def _free_memory(self, device_uuid: str) -> int | None:
        try:
            library = self._session()
            return library.nvmlDeviceGetMemoryInfo(library.nvmlDeviceGetHandleByUUID(device_uuid)).free
        except Exception:  # as above
            return None


def _read_report(library: NvmlLibrary) -> GpuReport:
    """Read every device. One that cannot be read does not hide the others."""
    devices: list[GpuDevice] = []
    faults: list[str] = []
    states: list[GpuState] = []

    for index in range(library.nvmlDeviceGetCount()):
        found = len(devices)

        try:
            devices.extend(_read_gpu(library, index))
        except library.NVMLError as error:
            faults.append(f"GPU {index}: {error}")
            states.append(_state_after(library, error))
        else:
            if len(devices) == found:
                faults.append(f"GPU {index}: MIG is on, but there is no instance")
                states.append(GpuState.ABSENT)

    error_text = "; ".join(faults) or None

    if devices:
        return GpuReport(state=GpuState.READY, driver_path=_driver_path(), error=error_text, devices=tuple(devices))

    return no_devices(_worst(states), error_text or "the NVIDIA driver sees no device")


def _worst(states: list[GpuState]) -> GpuState:
    """What is not known may be there after all; what is lost is there."""
    for state in (GpuState.UNKNOWN, GpuState.LOST):
        if state in states:
            return state

    return GpuState.ABSENT


def _state_after(library: NvmlLibrary | None, error: Exception) -> GpuState:
    if library is None:
        return GpuState.UNKNOWN

    if isinstance(error, library.NVMLError_LibraryNotFound | library.NVMLError_DriverNotLoaded):
        return GpuState.ABSENT

    if isinstance(error, library.NVMLError_GpuIsLost | library.NVMLError_ResetRequired):
        return GpuState.LOST

    return GpuState.UNKNOWN


def _read_gpu(library: NvmlLibrary, index: int) -> Iterator[GpuDevice]:
    """Read one GPU: itself, or its instances when MIG is on, for then CUDA runs on nothing else."""
    gpu = library.nvmlDeviceGetHandleByIndex(index)
    mig_mode = _or_none(library, library.nvmlDeviceGetMigMode, gpu)

    if mig_mode is None or mig_mode[0] != _MIG_ENABLED:
        yield _read_device(library, index, gpu, gpu)
        return

    for slot in range(library.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            instance = library.nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot)
        except library.NVMLError_NotFound:
            continue

        yield _read_device(library, index, gpu, instance)


def _read_device(library: NvmlLibrary, index: int, gpu: object, device: object) -> GpuDevice:
    capability = _or_none(library, library.nvmlDeviceGetCudaComputeCapability, gpu)
    memory = _or_none(library, library.nvmlDeviceGetMemoryInfo, device)
    return GpuDevice(
        index=index,
        name=library.nvmlDeviceGetName(device),
        uuid=library.nvmlDeviceGetUUID(device),
        compute_capability=None if capability is None else f"{capability[0]}.{capability[1]}",
        vram_total_bytes=None if memory is None else memory.total,
        vram_used_bytes=None if memory is None else memory.used,
        vram_free_bytes=None if memory is None else memory.free,
    )


def _or_none(library: NvmlLibrary, read: Callable[[object], _Value], device: object) -> _Value | None:
    """Read what not every device, driver or user can read. A lost device still raises."""
    withheld = (
        library.NVMLError_NotSupported,
        library.NVMLError_NoPermission,
        library.NVMLError_FunctionNotFound,
        # What the binding raises, outside its own tree of errors, for lists of processes that an older driver does not have.
        library.NVMLLibraryMismatchError,
    )

    try:
        return read(device)
    except withheld:
        return None


def _process_memory(library: NvmlLibrary, device: object, pid: int) -> int | None:
    entries = list(library.nvmlDeviceGetComputeRunningProcesses(device))
    # Clients of the multi-process service are in a list of their own.
    entries += _or_none(library, library.nvmlDeviceGetMPSComputeRunningProcesses, device) or []
    total = 0

    for entry in entries:
        if entry.pid == pid:
            if entry.usedGpuMemory is None:
                return None

            total += entry.usedGpuMemory

    return total


def _driver_path() -> str:
    """Return where the library was loaded from; its soname when the kernel does not tell."""
    with contextlib.suppress(OSError):
        return mapped_library(Path("/proc/self/maps").read_text(errors="replace")) or _SONAME

    return _SONAME


def mapped_library(maps: str) -> str | None:
    """Return the path of the driver's library in the text of /proc/self/maps, None when it is not loaded."""
    for line in maps.splitlines():
        path = line.partition("/")[2]

        if path and "libnvidia-ml.so" in path.rpartition("/")[2]:
            return "/" + path.removesuffix(" (deleted)")

    return None
