"""Processes that a faulty product leaves behind, found and ended. A tie between a worker and its server is one of the things that are cut.

Only children of this process are ended, and only such as were not there before.
"""

import contextlib
import ctypes
import os
import signal
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """From now on every orphan below this process becomes its child. For a process that does nothing else."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def own_children() -> set[int]:
    """Return the ids of our children, the ended ones too."""
    found: set[int] = set()

    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(map(int, path.read_text().split()))

    return found


def reap(pids: set[int]) -> None:
    """Take in the end of those that have ended: others may wait for one of them to be gone."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def end_all_but(kept: set[int]) -> None:
    """End our children, and theirs, which become ours when they lose their parent."""
    while left := own_children() - kept:
        for pid in left:
            os.kill(pid, signal.SIGKILL)

        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
