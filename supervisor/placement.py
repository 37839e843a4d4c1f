"""Where a model is loaded. Values only; made by the admission, kept with the worker."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ipc.messages import DeviceChoice
from supervisor.gpu_report import GpuDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What a worker is told, and what it will take.

    device, no_cuda_reason: see `ipc.launch_spec`. gpu: the device that it may use, as it was before the load; None on the CPU.
    variables: go over the worker's environment. vram_bytes: what it will take of the GPU, estimated.
    kv_slots: finished requests that it may keep, see `ipc.launch_spec`.
    """

    device: DeviceChoice
    no_cuda_reason: str | None = None
    gpu: GpuDevice | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    vram_bytes: int = 0
    kv_slots: int = 0
