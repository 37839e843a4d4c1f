"""`python -m gpu_worker --launch-fd N`: started by the supervisor only. Lays the ties to the front, then becomes a worker.

With `--parent-pid P` it is started ahead of its model: it imports the engine and waits for the launch spec, without a bound.
"""

import argparse
import logging
import os
import sys

from gpu_worker.lifeline import die_with_parent, is_abandoned, is_orphan, set_process_rules
from ipc.exit_status import WorkerExit


def main() -> int:
    """Return the exit status; see `ipc.exit_status`."""
    die_with_parent()
    set_process_rules()
    parser = argparse.ArgumentParser(
        prog="gpu_worker", description="Worker of Prism; started by its server, not by hand."
    )
    parser.add_argument("--launch-fd", type=int, required=True, help="read end of the pipe that holds the launch spec")
    parser.add_argument("--parent-pid", type=int, help="the server; given when the launch spec comes later")
    arguments = parser.parse_args()
    is_ahead = arguments.parent_pid is not None

    # The front may have died before the kernel was asked to tell. On a loaded machine the imports below take seconds.
    if is_abandoned(arguments.launch_fd) or (is_ahead and is_orphan(arguments.parent_pid)):
        return WorkerExit.ORPHANED

    # Imported here because it takes tens of milliseconds, in which the front might die unnoticed.
    from gpu_worker.worker import import_ahead, run_worker

    if is_ahead:
        import_ahead()

    return run_worker(arguments.launch_fd)


if __name__ == "__main__":
    status = main()
    logging.shutdown()
    sys.stderr.flush()
    # Without the interpreter's farewell: taking a loaded model apart takes time, and a fault in it would hide the status.
    os._exit(status)
