"""What is known of the NVIDIA devices of this machine, as values. Pure.

Made by `supervisor.nvml` (all devices of the machine), narrowed by `supervisor.visible_devices` (those that a worker would see),
read by the hardware report, the memory budget and the choice of the device.
"""

from dataclasses import dataclass
from enum import StrEnum

_LEAST_CUDA_MAJOR = 5


class GpuState(StrEnum):
    """How far the devices are known."""

    READY = "ready"  # at least one device can be read
    ABSENT = "absent"  # there is no device: no driver, or a driver that sees none
    LOST = "lost"  # there are devices, but none works until it is reset
    UNKNOWN = "unknown"  # nobody can tell: the driver does not answer, refuses, or was not asked yet


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDevice:
    """One device on which CUDA can run: a GPU, or one MIG instance of it (which has the index of its GPU and a uuid of its own).

    index: place in the driver's own order, the one that nvidia-smi shows.
    compute_capability: "major.minor". None, here and for the memory: the driver does not say.
    """

    index: int
    name: str
    uuid: str
    compute_capability: str | None
    vram_total_bytes: int | None
    vram_used_bytes: int | None
    vram_free_bytes: int | None

    @property
    def qualifying_cuda(self) -> bool:
        """Say whether the device is new enough for the CUDA provider. One that hides its capability does not qualify."""
        major, _, _ = (self.compute_capability or "0.0").partition(".")
        return int(major) >= _LEAST_CUDA_MAJOR


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReport:
    """The devices at one moment. READY has devices, every other state has none and an error.

    driver_path: the driver's library, as loaded; None when there is none.
    error: why there are no devices; in a READY report, which devices of the machine are not among them, and why.
    """

    state: GpuState
    driver_path: str | None = None
    error: str | None = None
    devices: tuple[GpuDevice, ...] = ()

    def __post_init__(self) -> None:
        """Keep the promise of the class."""
        if (self.state is GpuState.READY) != bool(self.devices):
            raise ValueError(f"a report in state '{self.state}' cannot have {len(self.devices)} devices")

        if not self.devices and not self.error:
            raise ValueError("a report without devices must say why")

    @property
    def available(self) -> bool:
        """Say whether a device can be read."""
        return self.state is GpuState.READY


def no_devices(state: GpuState, error: str) -> GpuReport:
    """Return a report that says why there are no devices."""
    return GpuReport(state=state, error=error)
