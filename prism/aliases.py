"""Short names for models that many people use.

Data only; `prism.catalog` resolves them, a download command may read the repository ids.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Variant:
    """One build of a model: its folder in the Hugging Face repository, and its name once it is installed."""

    folder: str
    installed_name: str


@dataclass(frozen=True, slots=True)
class Alias:
    """A model under its short name, in a build for CUDA and one for the CPU."""

    repository: str
    cuda: Variant
    cpu: Variant


_GPU_RTN: Final = "gpu/gpu-int4-rtn-block-32"
_CPU_RTN: Final = "cpu_and_mobile/cpu-int4-rtn-block-32-acc-level-4"
_MISTRAL: Final = "mistral-7b-instruct-v0.2"


def _microsoft(repository: str, stem: str, cuda_folder: str = _GPU_RTN, cpu_folder: str = _CPU_RTN) -> Alias:
    return Alias(
        repository=f"microsoft/{repository}",
        cuda=Variant(cuda_folder, f"{stem}-cuda-gpu"),
        cpu=Variant(cpu_folder, f"{stem}-generic-cpu"),
    )


ALIASES: Final[dict[str, Alias]] = {
    "phi-4-mini": _microsoft("Phi-4-mini-instruct-onnx", "Phi-4-mini-instruct"),
    "phi-4": _microsoft("phi-4-onnx", "Phi-4-instruct"),
    "phi-4-mini-reasoning": _microsoft("Phi-4-mini-reasoning-onnx", "Phi-4-mini-reasoning"),
    "phi-4-reasoning": _microsoft("Phi-4-reasoning-onnx", "Phi-4-reasoning"),
    "phi-3-mini-4k": _microsoft(
        "Phi-3-mini-4k-instruct-onnx", "Phi-3-mini-4k-instruct", cuda_folder="cuda/cuda-int4-rtn-block-32"
    ),
    "phi-3.5-mini": _microsoft(
        "Phi-3.5-mini-instruct-onnx",
        "Phi-3.5-mini-instruct",
        cuda_folder="gpu/gpu-int4-awq-block-128",
        cpu_folder="cpu_and_mobile/cpu-int4-awq-block-128-acc-level-4",
    ),
    _MISTRAL: Alias(
        repository="microsoft/mistral-7b-instruct-v0.2-ONNX",
        cuda=Variant(f"onnx/cuda/{_MISTRAL}-cuda-int4-rtn-block-32", f"{_MISTRAL}-cuda-int4-rtn-block-32"),
        cpu=Variant(
            f"onnx/cpu_and_mobile/{_MISTRAL}-cpu-int4-rtn-block-32-acc-level-4",
            f"{_MISTRAL}-cpu-int4-rtn-block-32-acc-level-4",
        ),
    ),
}


def installed_names(alias: str, *, prefers_cuda: bool) -> tuple[str, ...]:
    """Return the folder names that may stand for the alias, best first; empty for what is no alias."""
    known = ALIASES.get(alias.lower())

    if known is None:
        return ()

    names = (known.cuda.installed_name, known.cpu.installed_name)
    return names if prefers_cuda else names[::-1]
