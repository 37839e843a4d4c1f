"""Is CUDA worth a try, and are its libraries where the engine finds them? Looks at files only: neither question may load a driver.

Called while loading; the engine, which may be imported already, looks for the libraries when it builds a model. That the answer is "worth a
try" proves nothing: only building the model tells.
"""

import ctypes
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

logger = logging.getLogger(__name__)

# A later one needs those before it.
_LIBRARIES = ("cudart", "nvJitLink", "cublasLt", "cublas", "curand", "cufft", "nvrtc", "cudnn")
# A driver shows itself by one of these: a card's device, the device of WSL, the kernel module.
_DEVICE_PATHS = ("dev/nvidiactl", "dev/nvidia0", "dev/dxg", "proc/driver/nvidia/version")
_ENGINE_PACKAGE = "onnxruntime_genai"
_ENGINE_CUDA_LIBRARY = "libonnxruntime-genai-cuda.so"


def why_no_cuda(environment: Mapping[str, str], root: Path, engine_folders: Iterable[Path]) -> str | None:
    """Return why CUDA cannot work here, None when it may.

    root: where dev/ and proc/ are. engine_folders: where the engine is installed.
    """
    if not any((root / path).exists() for path in _DEVICE_PATHS):
        return "no NVIDIA GPU was found"

    visible = environment.get("CUDA_VISIBLE_DEVICES")

    # An empty list or a first entry of -1 hides every device.
    if visible is not None and visible.split(",")[0].strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={visible!r} hides every GPU"

    if not any((folder / _ENGINE_CUDA_LIBRARY).is_file() for folder in engine_folders):
        return "the installed onnxruntime-genai is a CPU build"

    return None


def package_folders(name: str) -> tuple[Path, ...]:
    """Return the folders of a package without importing it; none when it is not installed."""
    spec = find_spec(name)
    return tuple(Path(folder) for folder in (spec.submodule_search_locations or ())) if spec is not None else ()


def engine_folders() -> tuple[Path, ...]:
    return package_folders(_ENGINE_PACKAGE)


def preload(nvidia_folders: Iterable[Path]) -> tuple[str, ...]:
    """Load the CUDA libraries that pip installed, so that the engine's own ones find them by name; return their file names.

    The wheels lie in folders that the linker does not search, and LD_LIBRARY_PATH is read only when a process starts. A library that
    cannot be loaded is passed over: the system may have another, and if not, building the model names it.
    """
    loaded = []

    for path in library_paths(nvidia_folders):
        try:
            ctypes.CDLL(os.fspath(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            logger.warning("%s cannot be loaded: %s", path.name, error)
        else:
            loaded.append(path.name)

    return tuple(loaded)


def library_paths(nvidia_folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the libraries in the order in which they are to be loaded, each name once.

    Both layouts of the wheels fit: nvidia/cublas/lib/libcublas.so.12 and nvidia/cu13/lib/libcublas.so.13.
    """
    folders = tuple(nvidia_folders)

    for name in _LIBRARIES:
        pattern = re.compile(rf"lib{name}\.so\.\d+")
        candidates = (path for folder in folders for path in sorted(folder.glob(f"*/lib/lib{name}.so.*")))
        found = next((path for path in candidates if pattern.fullmatch(path.name)), None)

        if found is not None:
            yield found
