"""Ties this process to the front that started it, by the kernel and by a pipe, and sets how it takes signals and faults.

Called first thing in the process, before any heavy import. Everything here returns at once.
"""

import contextlib
import ctypes
import faulthandler
import os
import resource
import select
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1
# The kernel then takes the worker, which can be started again, before the front, which holds everybody's connections.
_OOM_SCORE_ADJ = "500"


def die_with_parent() -> None:
    """Let the kernel kill this process when the thread that started it ends.

    Nothing else works while native code holds the GIL, and a SIGKILLed front can send no farewell. A host without the call leaves the
    pipe (`Lifeline`) as the only tie.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def set_process_rules() -> None:
    """Set signals, limits, the libraries' manners and the crash report.

    SIGTERM keeps its default action on purpose: a handler in Python would run only when the native call returns, seconds later.
    """
    # Ctrl+C goes to the whole foreground group, and it is the front's to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A core of a worker is as large as its model.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE_ADJ)

    # A worker has no business on the network; its libraries read these when they are loaded.
    os.environ.update(ORT_DISABLE_TELEMETRY="1", HF_HUB_OFFLINE="1")
    faulthandler.enable()


def is_orphan(parent_pid: int) -> bool:
    """True when the front died before `die_with_parent` took effect: another process is our parent now."""
    return os.getppid() != parent_pid


def is_abandoned(launch_fd: int) -> bool:
    """True when nobody holds the other end of the launch pipe any more, whether its spec was read or not. False for what is no pipe."""
    poller = select.poll()
    poller.register(launch_fd, 0)
    return any(event & select.POLLHUP for _, event in poller.poll(0))


class Lifeline:
    """The read end of a pipe whose write end only the front holds. It carries nothing more, so its end is all it can tell."""

    def __init__(self, read_fd: int) -> None:
        self._poller = select.poll()
        self._poller.register(read_fd, select.POLLIN)

    def is_cut(self) -> bool:
        """True when the front is gone. Costs about a microsecond."""
        return bool(self._poller.poll(0))
