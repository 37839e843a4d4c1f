"""Can the CUDA provider really load? Told from outside, without loading it.

Used by the front's event loop. The libraries are looked at once, in the background, by `ldd` in a process of its own: to load them
here could end the front (a half-installed CUDA crashes in its initialisers). A seen GPU alone proves nothing, nor does a folder's name.
"""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from ipc.messages import Device, DeviceChoice
from supervisor.gpu_report import GpuReport, GpuState

_ENGINE = "onnxruntime-genai-cuda"
_RUNTIME = "onnxruntime-gpu"
# Each gives the same module as its neighbour, so whichever was installed last is the one that runs.
_RIVALS = ((_ENGINE, "onnxruntime-genai"), (_RUNTIME, "onnxruntime"))
_LIBRARIES = (
    (_RUNTIME, "onnxruntime/capi/libonnxruntime_providers_cuda.so"),
    (_ENGINE, "onnxruntime_genai/libonnxruntime-genai-cuda.so"),
)
_WSL_FOLDER = "/usr/lib/wsl/lib"
_NOT_FOUND = re.compile(r"^[ \t]*+(\S++) => not found", re.MULTILINE)
_NO_VERSION = re.compile(r"(?<![^\s:])([^\s:]++): version [`']([^\s']++)' not found")


@dataclass(frozen=True, slots=True)
class CudaProbe:
    """An answer. is_usable: None means that nobody can tell. reason: why not, or why nobody can tell; None when usable.

    missing: names of libraries that do not resolve, sorted.
    """

    is_usable: bool | None
    reason: str | None = None
    missing: tuple[str, ...] = ()


NOT_CHECKED_YET = CudaProbe(is_usable=None, reason="not checked yet")
_USABLE = CudaProbe(is_usable=True)


class CudaProber:
    """Looks at the libraries once and keeps the answer.

    environ: the environment that workers will have (PATH and LD_LIBRARY_PATH are used).
    search_path: folders of installed distributions, as workers will see them.
    """

    def __init__(
        self, environ: Mapping[str, str], search_path: Sequence[str] | None = None, ldd_timeout_s: float = 15.0
    ) -> None:
        self._environ = environ
        self._search_path = tuple(sys.path if search_path is None else search_path)
        self._ldd_timeout_s = ldd_timeout_s
        self._task: asyncio.Task[CudaProbe] | None = None

    def start(self) -> None:
        """Begin to look, if that has not begun."""
        if self._task is None:
            self._task = asyncio.create_task(self._look(), name="probe CUDA libraries")

    def latest(self) -> CudaProbe:
        """Return the answer as far as it is known now. Never waits."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            return NOT_CHECKED_YET

        return self._task.result()

    async def libraries(self) -> CudaProbe:
        """Return whether all libraries are there; starts and waits for the look. Says nothing of a device: see `with_device`."""
        self.start()
        assert self._task is not None  # by `start`
        return await asyncio.shield(self._task)

    async def close(self) -> None:
        """Stop looking; ends an `ldd` that runs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _look(self) -> CudaProbe:
        try:
            return await self._look_at_files()
        except (OSError, TimeoutError) as error:
            return _unknown(f"not checked: {error}")

    async def _look_at_files(self) -> CudaProbe:
        found = await asyncio.to_thread(_find_libraries, self._search_path)

        if isinstance(found, CudaProbe):
            return found

        ldd = shutil.which("ldd", path=self._environ.get("PATH", os.defpath))

        if ldd is None:
            return _unknown("not checked: there is no ldd on this machine")

        library_path = await asyncio.to_thread(cuda_library_path, self._environ, self._search_path)
        environ = {**self._environ, "LC_ALL": "C", "LD_LIBRARY_PATH": library_path}
        return _judge([await _run_ldd(ldd, library, environ, self._ldd_timeout_s) for library in found])


def cuda_library_path(environ: Mapping[str, str], search_path: Sequence[str] | None = None) -> str:
    """Return the LD_LIBRARY_PATH with which the CUDA libraries that pip installed are found. A worker that gets it loads what was probed.

    Touches the disk; a few milliseconds.
    """
    folders = [folder for folder in environ.get("LD_LIBRARY_PATH", "").split(":") if folder]

    if Path(_WSL_FOLDER).is_dir():
        folders.append(_WSL_FOLDER)

    for root in sys.path if search_path is None else search_path:
        folders += sorted(str(folder) for folder in Path(root, "nvidia").glob("*/lib") if folder.is_dir())

    return ":".join(dict.fromkeys(folders))


def with_device(libraries: CudaProbe, gpu: GpuReport) -> CudaProbe:
    """Return the whole answer: the libraries, and the device that will be used (the first of a report of visible devices).

    One certain no is a no, whatever else is unknown.
    """
    device = _judge_device(gpu)

    for probe in (libraries, device):
        if probe.is_usable is False:
            return probe

    return libraries if libraries.is_usable is None else device


def planned_device(choice: DeviceChoice, gpu: GpuReport, probe: CudaProbe, last_loaded: Device | None) -> str:
    """Return where a model will run, in the words of the API: "CPU" or "CUDA (GPU)". CUDA is said only when it can really load.

    gpu: the devices that a worker would see. probe: the libraries. last_loaded: where the last load of this server really went.
    A load that succeeded on CUDA proves more than any look at files; a fall-back to the CPU under AUTO will most likely come again.
    """
    if choice is DeviceChoice.CPU or (choice is DeviceChoice.AUTO and last_loaded is Device.CPU):
        return "CPU"

    if last_loaded is Device.CUDA:
        return "CPU" if _judge_device(gpu).is_usable is False else "CUDA (GPU)"

    return "CUDA (GPU)" if with_device(probe, gpu).is_usable else "CPU"


def _unusable(reason: str, missing: tuple[str, ...] = ()) -> CudaProbe:
    return CudaProbe(is_usable=False, reason=reason, missing=missing)


def _unknown(reason: str) -> CudaProbe:
    return CudaProbe(is_usable=None, reason=reason)


def _judge_device(gpu: GpuReport) -> CudaProbe:
    if gpu.state is GpuState.UNKNOWN:
        return _unknown(gpu.error or "unknown")

    if not gpu.available:
        return _unusable(gpu.error or "no NVIDIA device")

    device = gpu.devices[0]

    if not device.qualifying_cuda:
        capability = device.compute_capability or "not told"
        return _unusable(f"{device.name} is too old for CUDA (compute capability {capability})")

    return _USABLE


def _find_libraries(search_path: Sequence[str]) -> tuple[Path, ...] | CudaProbe:
    """Return the files to look at, or the answer when there is nothing to look at. Reads a few folders."""
    for name, rival in _RIVALS:
        if _installed(name, search_path) is None:
            return _unusable(f"{name} is not installed")

        if _installed(rival, search_path) is not None:
            return _unknown(f"{rival} and {name} are both installed and overwrite each other")

    files = []

    for name, inside in _LIBRARIES:
        distribution = _installed(name, search_path)
        file = None if distribution is None else Path(str(distribution.locate_file(inside)))

        if file is None or not file.is_file():
            return _unusable(f"{name} is installed without {inside}")

        files.append(file)

    return tuple(files)


def _installed(name: str, search_path: Sequence[str]) -> Distribution | None:
    return next(iter(distributions(name=name, path=list(search_path))), None)


async def _run_ldd(ldd: str, library: Path, environ: Mapping[str, str], timeout_s: float) -> tuple[Path, int, str]:
    """Return the library, the exit status and everything that was said. Raises OSError and TimeoutError, each with a text for people."""
    process = await asyncio.create_subprocess_exec(
        ldd,
        str(library),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=dict(environ),
        start_new_session=True,
    )

    try:
        async with asyncio.timeout(timeout_s):
            said, _ = await process.communicate()
    except TimeoutError:
        raise TimeoutError(f"ldd did not answer within {timeout_s:g} s for {library.name}") from None
    finally:
        if process.returncode is None:
            # ldd is a script: its child must go with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

            await process.communicate()

    assert process.returncode is not None  # communicate() waits for the end
    return library, process.returncode, said.decode(errors="replace")


def _judge(outputs: Sequence[tuple[Path, int, str]]) -> CudaProbe:
    missing: set[str] = set()

    for _, _, said in outputs:
        missing.update(_NOT_FOUND.findall(said))
        missing.update(f"{Path(name).name} ({version})" for name, version in _NO_VERSION.findall(said))

    if missing:
        names = tuple(sorted(missing))
        return _unusable(f"libraries are missing: {', '.join(names)}", names)

    for library, status, said in outputs:
        if status != 0:
            last_line = (said.strip().splitlines() or ["nothing"])[-1].strip()
            return CudaProbe(
                None, f"not checked: ldd ended with status {status} for {library.name} and said: {last_line}"
            )

    return _USABLE
