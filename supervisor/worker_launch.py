"""Makes a worker of a process, a new one or a spare: tells it, over a pipe, what it must know.

Called by `Worker` in the event loop's thread.
"""

import os
from collections.abc import Callable

from ipc.launch_spec import LaunchSpec, encode_launch_spec
from supervisor.child_process import ChildProcess
from supervisor.placement import Placement
from supervisor.settings import ModelRef, SupervisorSettings
from supervisor.spare_worker import SpareWorker
from supervisor.worker_environment import worker_environment
from supervisor.worker_process import start_process


def launch_worker(
    settings: SupervisorSettings,
    model: ModelRef,
    number: int,
    placement: Placement,
    endpoint: str,
    secret: bytes,
    inherited_fds: tuple[int, ...],
    on_exit: Callable[[int], None],
    spare: SpareWorker | None,
) -> tuple[ChildProcess, int]:
    """Return the running child and our end of its lifeline, which the caller closes after the child's end.

    inherited_fds: descriptors of ours that the child has too, for as long as it lives; a spare has them already.
    spare: becomes the worker if it still can; else one is started. One that was not given the spec stays the caller's.

    Raises OSError when the system refuses, ValueError when a path is no text; then nothing is left behind.
    """
    label, frame = f"worker {number}", encode_launch_spec(_spec(settings, model, number, placement, endpoint, secret))

    if spare is not None and spare.give(frame, label, on_exit):
        return spare.child, spare.lifeline

    environment = {**worker_environment(), **placement.variables}
    return start_process(settings.worker_command, environment, inherited_fds, label, on_exit, frame)


def _spec(
    settings: SupervisorSettings, model: ModelRef, number: int, placement: Placement, endpoint: str, secret: bytes
) -> LaunchSpec:
    return LaunchSpec(
        endpoint=endpoint,
        secret=secret,
        generation=number,
        parent_pid=os.getpid(),
        model_dir=str(model.path),
        device=placement.device,
        no_cuda_reason=placement.no_cuda_reason,
        prefill_chunk=settings.prefill_chunk,
        threads=settings.threads,
        parallel=settings.parallel,
        kv_slots=placement.kv_slots,
        kv_bytes=settings.kv.max_bytes,
        shares_prefixes=settings.kv.has_one_scope and settings.kv.max_slots > 0,
        has_loop_guard=settings.has_loop_guard,
    )
