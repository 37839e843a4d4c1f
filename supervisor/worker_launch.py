"""Starts the process of a worker and tells it, over a pipe, what it must know. Called by `Worker` in the event loop's thread."""

import os
from collections.abc import Callable

from ipc.launch_spec import LaunchSpec, write_launch_spec
from supervisor.child_process import ChildProcess
from supervisor.placement import Placement
from supervisor.settings import ModelRef, SupervisorSettings
from supervisor.worker_environment import worker_environment


def launch_worker(
    settings: SupervisorSettings,
    model: ModelRef,
    number: int,
    placement: Placement,
    endpoint: str,
    secret: bytes,
    inherited_fds: tuple[int, ...],
    on_exit: Callable[[int], None],
) -> tuple[ChildProcess, int]:
    """Return the running child and our end of its lifeline, which the caller closes after the child's end.

    inherited_fds: descriptors of ours that the child has too, for as long as it lives.

    Raises OSError when the system refuses, ValueError when a path is no text; then nothing is left behind.
    """
    spec = LaunchSpec(
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
    read_fd, write_fd = os.pipe()

    try:
        # Before the child exists, so that a spec that cannot be written leaves no child. It fits into the pipe.
        os.set_blocking(write_fd, False)
        write_launch_spec(write_fd, spec)
        child = ChildProcess(
            (*settings.worker_command, "--launch-fd", str(read_fd)),
            {**worker_environment(), **placement.variables},
            pass_fds=(read_fd, *inherited_fds),
            label=f"worker {number}",
            on_exit=on_exit,
        )
    except BaseException:
        os.close(write_fd)
        raise
    finally:
        os.close(read_fd)

    return child, write_fd
