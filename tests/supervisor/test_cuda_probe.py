"""Can CUDA really load: told by files and by ldd, never by a GPU that is merely seen."""

import ast
import asyncio
import importlib
import os
import shutil
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import psutil
import pytest

from ipc.messages import Device, DeviceChoice
from supervisor import cuda_probe
from supervisor.cuda_probe import (
    NOT_CHECKED_YET,
    CudaProbe,
    CudaProber,
    cuda_library_path,
    planned_device,
    with_device,
)
from supervisor.gpu_report import GpuDevice, GpuReport, GpuState, no_devices

_PROVIDER = "onnxruntime/capi/libonnxruntime_providers_cuda.so"
_ADD_ON = "onnxruntime_genai/libonnxruntime-genai-cuda.so"
_USABLE = CudaProbe(is_usable=True)
_BROKEN = CudaProbe(is_usable=False, reason="libraries are missing: libcublasLt.so.13", missing=("libcublasLt.so.13",))
_UNCHECKED = CudaProbe(is_usable=None, reason="not checked: there is no ldd on this machine")


def _gpu(capability: str = "8.9") -> GpuReport:
    device = GpuDevice(
        index=0,
        name="NVIDIA Test",
        uuid="GPU-1",
        compute_capability=capability,
        vram_total_bytes=1,
        vram_used_bytes=0,
        vram_free_bytes=1,
    )
    return GpuReport(state=GpuState.READY, driver_path="libnvidia-ml.so.1", devices=(device,))


_ABSENT = no_devices(GpuState.ABSENT, "the NVIDIA driver sees no device")
_LOST = no_devices(GpuState.LOST, "GPU 0: GPU is lost")
_SILENT = no_devices(GpuState.UNKNOWN, "NVML does not answer")


class Site:
    """A folder of installed distributions, and an ldd of our own that says what a test wants."""

    def __init__(self, root: Path) -> None:
        self.packages = root / "site-packages"
        self.bin = root / "bin"
        self.packages.mkdir()
        self.bin.mkdir()

    @property
    def environ(self) -> dict[str, str]:
        """An environment in which only our ldd is found."""
        return {"PATH": str(self.bin)}

    def install(self, name: str, *files: str, content: bytes = b"") -> None:
        """Install a distribution with these files."""
        folder = self.packages / f"{name.replace('-', '_')}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")

        for file in files:
            (self.packages / file).parent.mkdir(parents=True, exist_ok=True)
            (self.packages / file).write_bytes(content)

    def install_cuda(self, content: bytes = b"") -> None:
        """Install what the extra `cuda` installs."""
        self.install("onnxruntime-genai-cuda", _ADD_ON, content=content)
        self.install("onnxruntime-gpu", _PROVIDER, content=content)

    def ldd(self, script: str) -> None:
        """Put an ldd in place."""
        program = self.bin / "ldd"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    async def probe(self, timeout_s: float = 15.0) -> CudaProbe:
        """Look once, and clean up."""
        prober = CudaProber(self.environ, [str(self.packages)], timeout_s)

        try:
            return await prober.libraries()
        finally:
            await prober.close()


def _read(path: Path) -> str:
    return path.read_text()


def _some_library() -> bytes:
    """Return a real shared library that needs the C library."""
    return Path(str(importlib.import_module("msgspec._core").__file__)).read_bytes()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A fresh site with nothing in it."""
    return Site(tmp_path)


async def test_without_the_distribution_there_is_no_cuda(site: Site) -> None:
    site.install("onnxruntime-genai")

    assert await site.probe() == CudaProbe(is_usable=False, reason="onnxruntime-genai-cuda is not installed")


async def test_the_runtime_is_needed_too(site: Site) -> None:
    site.install("onnxruntime-genai-cuda", _ADD_ON)

    assert await site.probe() == CudaProbe(is_usable=False, reason="onnxruntime-gpu is not installed")


async def test_two_builds_in_one_environment_leave_it_open_which_one_runs(site: Site) -> None:
    site.install_cuda()
    site.install("onnxruntime-genai")
    probe = await site.probe()

    assert probe.is_usable is None
    assert probe.reason == "onnxruntime-genai and onnxruntime-genai-cuda are both installed and overwrite each other"


async def test_a_distribution_without_its_library_is_not_usable(site: Site) -> None:
    site.install("onnxruntime-genai-cuda", _ADD_ON)
    site.install("onnxruntime-gpu")

    assert await site.probe() == CudaProbe(is_usable=False, reason=f"onnxruntime-gpu is installed without {_PROVIDER}")


async def test_all_libraries_resolve(site: Site) -> None:
    site.install_cuda()
    site.ldd("echo '\tlibc.so.6 => /lib/libc.so.6 (0x00007f)'")

    assert await site.probe() == _USABLE


async def test_missing_libraries_of_both_files_are_named_once_and_sorted(site: Site) -> None:
    site.install_cuda()
    site.ldd(
        f"""case "$1" in
        */{_PROVIDER}) echo '	libcudart.so.13 => not found'; echo '	libcublasLt.so.13 => not found';;
        *) echo '	libcufft.so.12 => not found'; echo '	libcudart.so.13 => not found';;
        esac"""
    )
    probe = await site.probe()

    assert probe.missing == ("libcublasLt.so.13", "libcudart.so.13", "libcufft.so.12")
    assert probe.is_usable is False
    assert probe.reason == "libraries are missing: libcublasLt.so.13, libcudart.so.13, libcufft.so.12"


async def test_a_library_that_is_too_old_is_missing(site: Site) -> None:
    site.install_cuda()
    site.ldd('echo "$1: /lib/libstdc++.so.6: version \\`GLIBCXX_3.4.32\' not found (required by $1)" >&2; exit 1')

    assert (await site.probe()).missing == ("libstdc++.so.6 (GLIBCXX_3.4.32)",)


async def test_b05_without_ldd_it_is_not_checked(site: Site) -> None:
    site.install_cuda()

    assert await site.probe() == _UNCHECKED


async def test_b05_a_file_that_would_end_a_process_is_only_looked_at(site: Site) -> None:
    site.install_cuda(content=b"\x7fELF" + b"\xff" * 4096)
    site.ldd("echo 'not a dynamic executable' >&2; exit 1")
    probe = await site.probe()

    assert probe.is_usable is None
    assert probe.reason == (
        "not checked: ldd ended with status 1 for libonnxruntime_providers_cuda.so and said: not a dynamic executable"
    )


async def test_an_ldd_that_cannot_be_started_is_not_checked(site: Site) -> None:
    site.install_cuda()
    site.ldd("")
    (site.bin / "ldd").write_text("#!/nonexistent/interpreter\n")
    probe = await site.probe()

    assert probe.is_usable is None
    assert (probe.reason or "").startswith("not checked: ")


async def test_an_ldd_that_hangs_is_ended_with_its_children(site: Site) -> None:
    site.install_cuda()
    site.ldd(f"{shutil.which('sleep')} 300 & wait")
    began = time.monotonic()
    probe = await site.probe(timeout_s=0.3)

    assert time.monotonic() - began < 5
    assert probe.is_usable is None
    assert probe.reason == "not checked: ldd did not answer within 0.3 s for libonnxruntime_providers_cuda.so"
    assert not psutil.Process().children(recursive=True)


async def test_close_ends_an_ldd_that_runs(site: Site, tmp_path: Path) -> None:
    site.install_cuda()
    fifo = tmp_path / "began"
    os.mkfifo(fifo)
    site.ldd(f"echo began > {fifo}; exec {shutil.which('sleep')} 300")
    prober = CudaProber(site.environ, [str(site.packages)])
    prober.start()
    await asyncio.to_thread(_read, fifo)
    assert prober.latest() == NOT_CHECKED_YET
    await prober.close()

    assert not psutil.Process().children(recursive=True)
    assert prober.latest() == NOT_CHECKED_YET


async def test_it_is_looked_at_once_and_the_answer_is_kept(site: Site, tmp_path: Path) -> None:
    site.install_cuda()
    count = tmp_path / "count"
    site.ldd(f"echo x >> {count}")
    prober = CudaProber(site.environ, [str(site.packages)])
    assert prober.latest() == NOT_CHECKED_YET
    answers = await asyncio.gather(*(prober.libraries() for _ in range(5)))
    prober.start()

    assert answers == [_USABLE] * 5
    assert prober.latest() == _USABLE
    # Two files are looked at, each once.
    assert count.read_text() == "x\nx\n"
    await prober.close()
    assert prober.latest() == _USABLE


async def test_a_caller_that_leaves_does_not_stop_the_look(site: Site) -> None:
    site.install_cuda()
    site.ldd("")
    prober = CudaProber(site.environ, [str(site.packages)])
    waiting = asyncio.create_task(prober.libraries())
    await asyncio.sleep(0)
    waiting.cancel()

    assert await prober.libraries() == _USABLE
    await prober.close()


async def test_ldd_searches_where_pip_puts_cuda(site: Site, tmp_path: Path) -> None:
    site.install_cuda()
    told = tmp_path / "told"
    site.ldd(f'echo "$LD_LIBRARY_PATH" > {told}; echo "$LC_ALL" >> {told}')

    for name in ("cu13", "cudnn"):
        (site.packages / "nvidia" / name / "lib").mkdir(parents=True)

    (site.packages / "nvidia" / "headers_only").mkdir()
    prober = CudaProber({**site.environ, "LD_LIBRARY_PATH": "/own:"}, [str(site.packages)])
    await prober.libraries()
    await prober.close()
    path, locale = told.read_text().splitlines()
    folders = [folder for folder in path.split(":") if "/wsl/" not in folder]

    assert folders == ["/own", f"{site.packages}/nvidia/cu13/lib", f"{site.packages}/nvidia/cudnn/lib"]
    assert locale == "C"


def test_the_library_path_names_no_folder_twice_and_never_the_working_folder(site: Site) -> None:
    (site.packages / "nvidia" / "cu13" / "lib").mkdir(parents=True)
    folder = f"{site.packages}/nvidia/cu13/lib"
    path = cuda_library_path({"LD_LIBRARY_PATH": f":{folder}::"}, [str(site.packages), str(site.packages)])

    assert [part for part in path.split(":") if "/wsl/" not in part] == [folder]


@pytest.mark.skipif(shutil.which("ldd") is None, reason="needs ldd")
@pytest.mark.parametrize("is_complete", [True, False])
async def test_the_real_ldd_tells_a_complete_library_from_one_that_is_not(site: Site, is_complete: bool) -> None:
    library = _some_library()
    assert b"libc.so.6\0" in library
    site.install_cuda(content=library if is_complete else library.replace(b"libc.so.6\0", b"libz.so.9\0"))
    prober = CudaProber(os.environ, [str(site.packages)])
    probe = await prober.libraries()
    await prober.close()

    assert (probe.is_usable, probe.missing) == ((True, ()) if is_complete else (False, ("libz.so.9",)))


def test_this_environment_gives_an_answer_without_an_engine_in_the_process() -> None:
    program = """
import asyncio, os, sys
from supervisor.cuda_probe import CudaProber

async def main():
    prober = CudaProber(os.environ)
    probe = await prober.libraries()
    await prober.close()
    print(probe.reason is not None or probe.is_usable, [name for name in sys.modules if "onnx" in name])

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=40, check=True)

    assert done.stdout == "True []\n"


def test_b05_nothing_here_can_load_a_library() -> None:
    tree = ast.parse(Path(str(cuda_probe.__file__)).read_text())
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert not modules & {"ctypes", "cffi", "importlib", "onnxruntime", "onnxruntime_genai", "_ctypes"}


@pytest.mark.parametrize(
    ("libraries", "gpu", "is_usable", "reason"),
    [
        (_USABLE, _gpu(), True, None),
        (_USABLE, _ABSENT, False, _ABSENT.error),
        (_USABLE, _LOST, False, _LOST.error),
        (_USABLE, _SILENT, None, _SILENT.error),
        (_USABLE, _gpu("3.5"), False, "NVIDIA Test is too old for CUDA (compute capability 3.5)"),
        (_BROKEN, _gpu(), False, _BROKEN.reason),
        (_BROKEN, _SILENT, False, _BROKEN.reason),
        (_UNCHECKED, _gpu(), None, _UNCHECKED.reason),
        (_UNCHECKED, _SILENT, None, _UNCHECKED.reason),
        (_UNCHECKED, _ABSENT, False, _ABSENT.error),
    ],
)
def test_libraries_and_device_together(
    libraries: CudaProbe, gpu: GpuReport, is_usable: bool | None, reason: str | None
) -> None:
    probe = with_device(libraries, gpu)

    assert (probe.is_usable, probe.reason) == (is_usable, reason)


@pytest.mark.parametrize(
    ("choice", "gpu", "probe", "last_loaded", "wanted"),
    [
        # The operator's word for the CPU is final.
        (DeviceChoice.CPU, _gpu(), _USABLE, Device.CUDA, "CPU"),
        # D-44: a GPU that is seen is not enough, and neither is asking for CUDA.
        (DeviceChoice.AUTO, _gpu(), _BROKEN, None, "CPU"),
        (DeviceChoice.AUTO, _gpu(), _UNCHECKED, None, "CPU"),
        (DeviceChoice.AUTO, _gpu(), NOT_CHECKED_YET, None, "CPU"),
        (DeviceChoice.CUDA, _ABSENT, _USABLE, None, "CPU"),
        (DeviceChoice.CUDA, _gpu(), _BROKEN, None, "CPU"),
        (DeviceChoice.AUTO, _SILENT, _USABLE, None, "CPU"),
        (DeviceChoice.AUTO, _gpu("3.5"), _USABLE, None, "CPU"),
        # Everything is there.
        (DeviceChoice.AUTO, _gpu(), _USABLE, None, "CUDA (GPU)"),
        (DeviceChoice.CUDA, _gpu(), _USABLE, None, "CUDA (GPU)"),
        # What a load proved counts more than files.
        (DeviceChoice.AUTO, _gpu(), _UNCHECKED, Device.CUDA, "CUDA (GPU)"),
        (DeviceChoice.AUTO, _SILENT, _BROKEN, Device.CUDA, "CUDA (GPU)"),
        (DeviceChoice.AUTO, _gpu(), _USABLE, Device.CPU, "CPU"),
        (DeviceChoice.CUDA, _gpu(), _USABLE, Device.CPU, "CUDA (GPU)"),
        # But a device that is gone is gone.
        (DeviceChoice.AUTO, _LOST, _USABLE, Device.CUDA, "CPU"),
        (DeviceChoice.CUDA, _ABSENT, _USABLE, Device.CUDA, "CPU"),
    ],
)
def test_the_planned_device_is_honest(
    choice: DeviceChoice, gpu: GpuReport, probe: CudaProbe, last_loaded: Device | None, wanted: str
) -> None:
    assert planned_device(choice, gpu, probe, last_loaded) == wanted


def test_cuda_is_never_planned_without_a_proof_or_with_a_certain_no() -> None:
    everything = product(
        DeviceChoice,
        [_gpu(), _gpu("3.5"), _ABSENT, _LOST, _SILENT],
        [_USABLE, _BROKEN, _UNCHECKED, NOT_CHECKED_YET],
        [None, Device.CPU, Device.CUDA],
    )

    for choice, gpu, probe, last_loaded in everything:
        planned = planned_device(choice, gpu, probe, last_loaded)
        assert planned in {"CPU", "CUDA (GPU)"}

        if planned == "CUDA (GPU)":
            assert choice is not DeviceChoice.CPU
            assert gpu.state in {GpuState.READY, GpuState.UNKNOWN}
            assert last_loaded is Device.CUDA or with_device(probe, gpu).is_usable is True
