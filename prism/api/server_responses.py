"""The bodies of answers about the server itself: its models, its health, unload and drain. As `prism.api.responses`, pure.

A field that may be UNSET is left out of the JSON then; a field that may be None is written as null.
"""

from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

DeviceLabel: TypeAlias = Literal["CPU", "CUDA (GPU)"]
ServerState: TypeAlias = Literal["idle", "loading", "ready", "busy", "draining", "degraded"]


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """owned_by: the engine. size_mb: one decimal. device: where the model will run. exported_for: ONNX models only.

    input_modalities: what it takes.
    """

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    size_mb: float
    device: str
    exported_for: DeviceLabel | UnsetType = UNSET
    input_modalities: list[Literal["text", "image"]] | UnsetType = UNSET


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """ONNX models first, then Ollama's."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class GpuDevice(msgspec.Struct, frozen=True, kw_only=True):
    """Memory in MiB with one decimal. qualifying_cuda: compute capability 5 or later. Null: the driver does not tell."""

    index: int
    name: str
    compute_capability: str | None
    vram_total_mb: float | None
    vram_used_mb: float | None
    vram_free_mb: float | None
    qualifying_cuda: bool


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """What the NVIDIA driver tells. error: why it tells nothing."""

    available: bool
    driver_path: str | UnsetType = UNSET
    device_count: int | UnsetType = UNSET
    devices: list[GpuDevice] | UnsetType = UNSET
    error: str | UnsetType = UNSET


class QueueStatus(msgspec.Struct, frozen=True, kw_only=True):
    """running: requests that are being answered. waiting: requests behind them. max: 0 means no bound."""

    running: int
    waiting: int
    max: int


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The process that holds the resident model. restarts: workers that died on their own since the start of the server.

    parallel: how many requests it works on at the same time; null while it loads.
    """

    pid: int
    generation: int
    restarts: int
    parallel: int | None


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """active_model, active_device and worker are null while nothing is loaded.

    fallback_reason: why the CPU is used although CUDA was preferred; null when nothing was given up.
    """

    status: Literal["ok"] = "ok"
    active_model: str | None
    active_device: Literal["cpu", "cuda"] | None
    hardware: Hardware
    state: ServerState
    version: str
    uptime_sec: float
    queue: QueueStatus
    worker: WorkerStatus | None
    fallback_reason: str | None


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a request would be taken now; reason: why not."""

    ready: bool
    state: ServerState
    reason: str | None = None


class Unloaded(msgspec.Struct, frozen=True, kw_only=True):
    """unloaded: a model was resident and its process is gone. vram_*: on CUDA only."""

    unloaded: bool
    model: str | None
    vram_released_mb: float | UnsetType = UNSET
    vram_verified: bool | UnsetType = UNSET


class Drained(msgspec.Struct, frozen=True, kw_only=True):
    """exit_in_ms: when the process exits, counted from this answer."""

    drained: bool
    model: str | None
    exit_in_ms: int = 250
