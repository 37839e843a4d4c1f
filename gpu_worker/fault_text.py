"""What an exception of the engine means, judged by its text: the engine raises RuntimeError for everything.

Pure. Called by `engine.py` for every exception that leaves the library.
"""

import re

from gpu_worker.errors import EngineFault, LoadFault
from ipc.messages import FailCode, LoadFailCode

MAX_MESSAGE_CHARS = 500

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+\b")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Unprintable characters would let the text of a file steer a terminal or split a log line.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")

_OUT_OF_MEMORY = re.compile(
    r"bad[_ ]alloc|out of memory|not enough memory|failed to allocate|cannot allocate|unable to allocate"
    r"|cudaErrorMemoryAllocation|ALLOC_FAILED|\bOOM\b",
    re.IGNORECASE,
)
# A CUDA context that failed once fails for ever; only a new process repairs it.
_DEVICE = re.compile(r"cuda|cublas|cudnn|cufft|curand|nvrtc|nvidia", re.IGNORECASE)


def one_line(text: str) -> str:
    """Return text on one line, without addresses and control characters, of at most MAX_MESSAGE_CHARS characters."""
    plain = _ADDRESS.sub("(address)", _COLOUR.sub("", text))
    plain = " ".join(_UNPRINTABLE.sub(" ", plain).split())

    if len(plain) <= MAX_MESSAGE_CHARS:
        return plain

    return plain[: MAX_MESSAGE_CHARS - 1] + "…"


def cause_of(error: BaseException) -> str:
    """Return the words of an exception, or its kind when it has none."""
    return one_line(str(error)) or type(error).__name__


def load_fault(error: BaseException, model_dir: str) -> LoadFault:
    """Name a fault of loading.

    model_dir: left out when the text is judged, because folders are called `phi-cuda-gpu` and `oom-test`.
    """
    words = str(error).replace(model_dir, "")

    if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(words):
        return LoadFault(LoadFailCode.OUT_OF_MEMORY, cause_of(error))

    if _DEVICE.search(words):
        return LoadFault(LoadFailCode.DEVICE_UNAVAILABLE, one_line(f"CUDA cannot be used: {cause_of(error)}"))

    return LoadFault(LoadFailCode.BAD_MODEL, cause_of(error))


def engine_fault(error: BaseException) -> EngineFault:
    """Name a fault of generating."""
    if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(str(error)):
        return EngineFault(FailCode.OUT_OF_MEMORY, cause_of(error), is_fatal=True)

    is_sticky = _DEVICE.search(str(error)) is not None
    return EngineFault(FailCode.ENGINE_ERROR, cause_of(error), is_fatal=is_sticky)
