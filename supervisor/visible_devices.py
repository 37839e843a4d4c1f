"""Which devices a worker would see, and which of them it would use (the first). Pure.

The rules of CUDA_VISIBLE_DEVICES are NVIDIA's (CUDA programming guide, "CUDA environment variables"): a list of indices as nvidia-smi shows
them, or of uuids or unique beginnings of them, in the order in which CUDA shall number the devices; the first invalid entry ends the list.
"""

import re

from supervisor.gpu_report import GpuDevice, GpuReport, GpuState, no_devices

_INDEX = re.compile(r"[0-9]{1,9}")
_HIDDEN = "CUDA_VISIBLE_DEVICES hides every NVIDIA device"


def visible_devices(
    report: GpuReport, cuda_visible_devices: str | None, cuda_device_order: str | None = None
) -> GpuReport:
    """Return the report with only the devices that CUDA would number, in that order; devices[0] is the one that will be used.

    cuda_visible_devices, cuda_device_order: the variables of these names in the worker's environment; None when unset.
    Unset, and without the order PCI_BUS_ID, CUDA puts the fastest device first by a rule that it does not tell; here the newest and then
    the largest counts as fastest. Only a worker that is given the uuid of devices[0] as its CUDA_VISIBLE_DEVICES is sure to use that one.
    """
    if not report.available:
        return report

    if cuda_visible_devices is None:
        chosen = report.devices if cuda_device_order == "PCI_BUS_ID" else tuple(sorted(report.devices, key=_slowness))
    else:
        chosen = _choose(report.devices, cuda_visible_devices)

    if not chosen:
        return no_devices(GpuState.ABSENT, f"{_HIDDEN} ('{cuda_visible_devices}')")

    return GpuReport(state=GpuState.READY, driver_path=report.driver_path, error=report.error, devices=chosen)


def _slowness(device: GpuDevice) -> tuple[int, int, int]:
    major, _, minor = (device.compute_capability or "0.0").partition(".")
    return (-int(major), -int(minor), -(device.vram_total_bytes or 0))


def _choose(devices: tuple[GpuDevice, ...], wanted: str) -> tuple[GpuDevice, ...]:
    chosen: list[GpuDevice] = []

    for entry in wanted.split(","):
        device = _find(devices, entry.strip())

        if device is None:
            break

        if device in chosen:
            # CUDA takes a list that names a device twice for a mistake and shows nothing at all.
            return ()

        chosen.append(device)

    return tuple(chosen)


def _find(devices: tuple[GpuDevice, ...], entry: str) -> GpuDevice | None:
    if _INDEX.fullmatch(entry):
        # A GPU in MIG mode stands for its first instance: CUDA numbers no more than one.
        return next((device for device in devices if device.index == int(entry)), None)

    if not entry.startswith(("GPU-", "MIG-")):
        return None

    matches = [device for device in devices if device.uuid.startswith(entry)]
    return matches[0] if len(matches) == 1 else None
