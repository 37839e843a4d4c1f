"""`python -m gpu_worker --launch-fd N`: started by the supervisor only. Lays the ties to the front, then becomes a worker."""

import argparse
import logging
import os
import sys

from gpu_worker.lifeline import die_with_parent, is_abandoned, set_process_rules
from ipc.exit_status import WorkerExit


def main() -> int:
    """Return the exit status; see `ipc.exit_status`."""
    die_with_parent()
    set_process_rules()
    parser = argparse.ArgumentParser(
        prog="gpu_worker", description="Worker of Prism; started by its server, not by hand."
    )
    parser.add_argument("--launch-fd", type=int, required=True, help="read end of the pipe that holds the launch spec")
    arguments = parser.parse_args()

    # The front may have died before the kernel was asked to tell. On a loaded machine the imports below take seconds.
    if is_abandoned(arguments.launch_fd):
        return WorkerExit.ORPHANED

    # Imported here because it takes tens of milliseconds, in which the front might die unnoticed.
    from gpu_worker.worker import run_worker

    return run_worker(arguments.launch_fd)


if __name__ == "__main__":
    status = main()
    logging.shutdown()
    sys.stderr.flush()
    # Without the interpreter's farewell: taking a loaded model apart takes time, and a fault in it would hide the status.
    os._exit(status)
