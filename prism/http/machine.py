"""What the API says about the hardware: the block of `/health`, and where a model will run. Asks the supervisor's observers."""

from ipc.messages import Device, DeviceChoice
from supervisor.cuda_probe import CudaProber, planned_device, with_device
from supervisor.hardware import Hardware, HardwareMonitor
from supervisor.memory_gauge import MachineGauge
from supervisor.nvml import Nvml
from supervisor.visible_devices import visible_devices
from supervisor.worker_environment import worker_environment


class Machine:
    """Opened in the event loop by the server, closed at its end. Nothing here blocks or raises because of a driver.

    gauge: tells the supervisor of memory, before and after loads.
    """

    def __init__(self, choice: DeviceChoice) -> None:
        self._choice = choice
        self._nvml = Nvml()
        self._monitor = HardwareMonitor(self._nvml)
        # As a worker will have it: the answers are about what a worker can do.
        self._environment = worker_environment()
        self._prober = CudaProber(self._environment)
        self._last_loaded: Device | None = None
        self.gauge = MachineGauge(self._nvml, self._prober, self._environment)

    def start(self) -> None:
        """Begin to look at the libraries, so that the first question has an answer."""
        if self._choice is not DeviceChoice.CPU:
            self._prober.start()

    async def hardware(self) -> Hardware:
        """Return the block `hardware`; the last known one when the driver takes its time."""
        return await self._monitor.snapshot()

    def note_loaded(self, device: Device) -> None:
        """Remember where a load really went: better knowledge than any look at files."""
        self._last_loaded = device

    async def planned_device(self) -> str:
        """Return "CPU" or "CUDA (GPU)": where a model would run that is loaded now."""
        visible, order = (self._environment.get(name) for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"))
        report = visible_devices(await self._monitor.report(), visible, order)
        probe = with_device(self._prober.latest(), report)
        return planned_device(self._choice, report, probe, self._last_loaded)

    async def close(self) -> None:
        """End the observers."""
        await self._prober.close()
        await self._monitor.close()
        await self._nvml.close()
