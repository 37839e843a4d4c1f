"""Decides before a load whether the model fits, and on which device. Called by the loader, under the load lock, in the event loop's thread.

The model that leaves is still there: what it will give back is counted, so that a refusal does not cost it.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ipc.messages import Device, DeviceChoice
from supervisor.errors import Holder, InsufficientResources
from supervisor.gpu_report import GpuDevice
from supervisor.holder import find_holder
from supervisor.memory_budget import MemoryKind, MemoryNeed, check_budget
from supervisor.memory_gauge import MemoryGauge
from supervisor.model_figures import NOTHING_KEPT, KeptRequests, ModelFigures, device_need, host_need, read_figures
from supervisor.placement import Placement
from supervisor.seat import Seat
from supervisor.settings import SupervisorSettings
from supervisor.worker import Worker
from supervisor.worker_record import WorkerFacts
from supervisor.worker_state import WorkerState

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Case:
    """One decision: a model for a request, with what leaves and what cannot be made to leave.

    kept: what the worker may keep of finished requests. A model that fits only without that is loaded without.
    """

    seat: Seat
    figures: ModelFigures
    leaving: Worker | None
    stuck: Sequence[Worker]
    kept: KeptRequests
    orphans: Sequence[WorkerFacts]
    spare_pid: int | None


class Admission:
    """Of one server."""

    def __init__(self, settings: SupervisorSettings, gauge: MemoryGauge) -> None:
        self._settings = settings
        self._gauge = gauge

    async def place(
        self,
        seat: Seat,
        leaving: Worker | None,
        stuck: Sequence[Worker],
        orphans: Sequence[WorkerFacts] = (),
        spare_pid: int | None = None,
    ) -> Placement:
        """Return where the model is to be loaded. Raises InsufficientResources, with the process that is in the way.

        leaving: the resident worker, which makes room. stuck: workers that cannot be ended; nothing more is loaded where they are.
        orphans: as those, but of a server that is gone. spare_pid: a process that becomes the new worker, or makes room too.
        """
        alive = [worker for worker in stuck if worker.state is not WorkerState.EXITED]
        kv = self._settings.kv
        kept = KeptRequests(kv.max_slots, kv.max_bytes)
        case = _Case(seat, read_figures(seat.model.path), leaving, alive, kept, orphans, spare_pid)
        placement = await self._choose(case)
        is_on_cpu = placement.gpu is None and placement.device is not DeviceChoice.CUDA
        device = Device.CPU if is_on_cpu else Device.CUDA
        text = self._why_no_ram(case, device)

        if text is not None:
            # What is kept on the GPU takes no main memory.
            text = self._why_no_ram(replace(case, kept=NOTHING_KEPT), device)
            placement = self._without_slots(case, placement)

        if text is not None:
            raise self._refusal(case, text, MemoryKind.RAM, None)

        return placement

    def _without_slots(self, case: _Case, placement: Placement) -> Placement:
        if placement.kv_slots > 0:
            logger.warning("'%s' keeps no prefixes: there is too little memory for them", case.seat.model.model_id)

        return replace(placement, kv_slots=0)

    async def _choose(self, case: _Case) -> Placement:
        choice = self._settings.device

        if choice is DeviceChoice.CPU:
            return Placement(device=choice, kv_slots=case.kept.slots)

        gpu = await self._gauge.cuda_device()
        variables = await self._gauge.worker_variables()

        if gpu is None:
            # The worker knows best why not, and says so.
            return Placement(device=choice, variables=variables, kv_slots=case.kept.slots)

        fitting = case
        text = await self._why_no_vram(case, gpu)

        if text is not None:
            fitting = replace(case, kept=NOTHING_KEPT)
            text = await self._why_no_vram(fitting, gpu)

        if text is None:
            placement = Placement(
                device=choice,
                gpu=gpu,
                variables={**variables, "CUDA_VISIBLE_DEVICES": gpu.uuid},
                vram_bytes=self._need(fitting).total_bytes,
                kv_slots=case.kept.slots,
            )
            return placement if fitting is case else self._without_slots(case, placement)

        if choice is DeviceChoice.CUDA:
            raise self._refusal(case, text, MemoryKind.VRAM, gpu.uuid)

        logger.warning("'%s' is loaded on the CPU: %s", case.seat.model.model_id, text)
        return Placement(device=choice, no_cuda_reason=text, kv_slots=case.kept.slots)

    def _need(self, case: _Case) -> MemoryNeed:
        return device_need(case.figures, Device.CUDA, case.seat.tokens, self._settings.prefill_chunk, case.kept)

    async def _why_no_vram(self, case: _Case, gpu: GpuDevice) -> str | None:
        if any(_is_on(worker, gpu) for worker in case.stuck):
            return f"a worker that cannot be ended holds memory of {gpu.name}"

        if any(orphan.device_uuid == gpu.uuid for orphan in case.orphans):
            return f"a worker that outlived its server and cannot be ended holds memory of {gpu.name}"

        if not self._settings.memory.is_checked:
            return None

        refusal = check_budget(
            MemoryKind.VRAM,
            self._need(case),
            gpu.vram_free_bytes,
            self._settings.memory.vram_reserve_mb,
            await self._vram_credit(case.leaving, gpu),
        )
        return None if refusal is None else str(refusal)

    async def _vram_credit(self, leaving: Worker | None, gpu: GpuDevice) -> int:
        if leaving is None or not _is_on(leaving, gpu):
            return 0

        # Where the driver does not know the process, what was estimated for it stands in.
        return await self._gauge.process_vram(leaving.pid, gpu.uuid) or leaving.placement.vram_bytes

    def _why_no_ram(self, case: _Case, device: Device) -> str | None:
        if device is Device.CPU and any(worker.gpu is None for worker in case.stuck):
            return "a worker that cannot be ended holds memory"

        if device is Device.CPU and any(orphan.device_uuid is None for orphan in case.orphans):
            return "a worker that outlived its server and cannot be ended holds memory"

        if not self._settings.memory.is_checked:
            return None

        refusal = check_budget(
            MemoryKind.RAM,
            host_need(case.figures, device, case.seat.tokens, self._settings.prefill_chunk, case.kept),
            self._gauge.available_ram(),
            self._settings.memory.ram_reserve_mb,
            self._ram_credit(case),
        )
        return None if refusal is None else str(refusal)

    def _ram_credit(self, case: _Case) -> int:
        pids = (case.leaving.pid if case.leaving is not None else None, case.spare_pid)
        return sum(self._gauge.private_ram(pid) for pid in pids if pid is not None)

    def _refusal(self, case: _Case, text: str, kind: MemoryKind, device_uuid: str | None) -> InsufficientResources:
        state_dir = self._settings.load_lock.state_dir
        holder = _orphan_there(case.orphans, kind, device_uuid)

        if holder is None and state_dir is not None:
            holder = find_holder(state_dir, kind, device_uuid)

        in_the_way = f" Process {holder.pid} holds memory with '{holder.model}'." if holder and holder.model else ""
        return InsufficientResources(
            f"model '{case.seat.model.model_id}' does not fit: {text}.{in_the_way} PRISM_RESOURCE_CHECK=off loads it all the same.",
            holder,
        )


def _orphan_there(orphans: Sequence[WorkerFacts], kind: MemoryKind, device_uuid: str | None) -> Holder | None:
    """Return the orphan that keeps everybody from loading there."""
    wanted = device_uuid if kind is MemoryKind.VRAM else None
    found = next((orphan for orphan in orphans if orphan.device_uuid == wanted), None)
    return None if found is None else Holder(found.worker.pid, found.model)


def _is_on(worker: Worker, gpu: GpuDevice) -> bool:
    return worker.gpu is not None and worker.gpu.uuid == gpu.uuid
