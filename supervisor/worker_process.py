"""Starts the process of a worker with a pipe to it. Called in the event loop's thread; blocks for the few milliseconds of a spawn."""

import os
from collections.abc import Callable, Mapping, Sequence

from ipc.launch_spec import write_launch_frame
from supervisor.child_process import ChildProcess


def start_process(
    command: Sequence[str],
    environment: Mapping[str, str],
    inherited_fds: Sequence[int],
    label: str,
    on_exit: Callable[[int], None],
    frame: bytes,
) -> tuple[ChildProcess, int]:
    """Return the running child and our end of its lifeline, which the caller closes after the child's end. It does not block.

    command: argv before `--launch-fd N`. inherited_fds: descriptors of ours that the child has too, for as long as it lives.
    frame: lies in the pipe when the child begins; empty for a child that waits.

    Raises OSError when the system refuses; then nothing is left behind.
    """
    read_fd, write_fd = os.pipe()

    try:
        # Before the child exists, so that what cannot be written leaves no child. It fits into the pipe.
        os.set_blocking(write_fd, False)
        write_launch_frame(write_fd, frame)
        child = ChildProcess(
            (*command, "--launch-fd", str(read_fd)),
            environment,
            pass_fds=(read_fd, *inherited_fds),
            label=label,
            on_exit=on_exit,
        )
    except BaseException:
        os.close(write_fd)
        raise
    finally:
        os.close(read_fd)

    return child, write_fd
