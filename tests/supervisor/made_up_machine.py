"""A machine whose main memory is made up and whose GPUs are those of a fake driver."""

from collections.abc import Mapping

from supervisor.cuda_probe import CudaProber
from supervisor.memory_gauge import MachineGauge
from supervisor.nvml import Nvml
from tests.supervisor.fake_nvml import GIB, FakeNvml


class MadeUpMachine(MachineGauge):
    """available, private: of main memory, in bytes; private is what any process gives back."""

    def __init__(self, driver: FakeNvml, environment: Mapping[str, str] | None = None) -> None:
        self.nvml = Nvml(driver.load, deadline_s=0.2)
        # Not started: nobody knows of the libraries, so the device counts.
        super().__init__(self.nvml, CudaProber({}), environment or {})
        self.available = 64 * GIB
        self.private = 0

    def available_ram(self) -> int:
        return self.available

    def private_ram(self, pid: int) -> int:
        return self.private
