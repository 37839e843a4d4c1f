"""Whether a model fits before it is loaded, and whether its memory came back after it is gone. Pure figures.

All arithmetic is signed and in whole bytes: other programs allocate meanwhile, so "freed" and "missing" may well be below zero.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

_MIB = 1 << 20
# Measured for one 4-billion-parameter model on CUDA; a caller that knows its model gives its own figure.
PREFILL_BYTES_PER_TOKEN = 1_468_006
_RELEASE_SLACK_BYTES = 64 * _MIB


class MemoryKind(StrEnum):
    """Which memory a figure is about."""

    RAM = "RAM"
    VRAM = "VRAM"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeed:
    """What a loaded model takes at its worst, in bytes."""

    weights_bytes: int
    kv_bytes: int
    prefill_bytes: int

    @property
    def total_bytes(self) -> int:
        """Everything together."""
        return self.weights_bytes + self.kv_bytes + self.prefill_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class InsufficientMemory:
    """A refusal with its figures. credit_bytes: what the model that leaves will give back."""

    kind: MemoryKind
    need: MemoryNeed
    reserve_bytes: int
    available_bytes: int
    credit_bytes: int

    @property
    def missing_bytes(self) -> int:
        """How much more memory there would have to be; always above zero."""
        return self.need.total_bytes + self.reserve_bytes - self.available_bytes - self.credit_bytes

    def __str__(self) -> str:
        """Say it with every figure, in MiB, none of them cut."""
        credit = f", {_mib(self.credit_bytes)} MiB come back from the model that leaves" if self.credit_bytes else ""
        return (
            f"{self.kind}: {_mib(self.need.total_bytes + self.reserve_bytes)} MiB needed "
            f"(weights {_mib(self.need.weights_bytes)}, KV cache {_mib(self.need.kv_bytes)}, "
            f"prefill {_mib(self.need.prefill_bytes)}, reserve {_mib(self.reserve_bytes)}), "
            f"{_mib(self.available_bytes)} MiB available{credit}; {_mib(self.missing_bytes)} MiB are missing"
        )


def estimate_need(
    weights_bytes: int, kv_bytes: int, prefill_tokens: int, prefill_bytes_per_token: int = PREFILL_BYTES_PER_TOKEN
) -> MemoryNeed:
    """Return the need of a model.

    kv_bytes: the KV cache of the longest request that will be served. prefill_tokens: most tokens that are fed in one call.
    Raises ValueError, naming the figure, for one below zero.
    """
    figures = {
        "weights_bytes": weights_bytes,
        "kv_bytes": kv_bytes,
        "prefill_tokens": prefill_tokens,
        "prefill_bytes_per_token": prefill_bytes_per_token,
    }

    for name, value in figures.items():
        if value < 0:
            raise ValueError(f"{name} must not be below zero: {value}")

    return MemoryNeed(
        weights_bytes=weights_bytes, kv_bytes=kv_bytes, prefill_bytes=prefill_tokens * prefill_bytes_per_token
    )


def check_budget(
    kind: MemoryKind, need: MemoryNeed, available_bytes: int | None, reserve_mb: float, credit_bytes: int = 0
) -> InsufficientMemory | None:
    """Return None when the need and the reserve fit, else the refusal.

    available_bytes: None means that nobody can tell, and then nothing is refused.
    credit_bytes: memory of the resident model that makes room, so that a refusal does not cost it. Raises ValueError for a reserve
    that is no finite number (see `reserve_or_default`) or is below zero.
    """
    if not math.isfinite(reserve_mb) or reserve_mb < 0:
        raise ValueError(f"reserve_mb must be a finite number, not below zero: {reserve_mb}")

    if available_bytes is None:
        return None

    refusal = InsufficientMemory(
        kind=kind,
        need=need,
        reserve_bytes=math.ceil(reserve_mb * _MIB),
        available_bytes=available_bytes,
        credit_bytes=credit_bytes,
    )
    return refusal if refusal.missing_bytes > 0 else None


def reserve_or_default(text: str | None, default_mb: float) -> float:
    """Read a reserve in MiB; what is no finite number, or below zero, is the default."""
    try:
        value = float(text or "")
    except ValueError:
        return default_mb

    return value if math.isfinite(value) and value >= 0 else default_mb


def is_memory_back(
    *, free_now_bytes: int, free_before_load_bytes: int, free_before_stop_bytes: int, used_bytes: int
) -> bool:
    """Say whether a device has its memory back: nearly as free as before the load, or freed by three quarters of what the worker used.

    used_bytes: what the worker took; 0 or less, when others gave back more meanwhile, asks for nothing.
    """
    freed_bytes = free_now_bytes - free_before_stop_bytes
    return free_now_bytes >= free_before_load_bytes - _RELEASE_SLACK_BYTES or freed_bytes * 4 >= used_bytes * 3


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:.1f}"
