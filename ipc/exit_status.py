"""The worker's exit codes, and what an exit means to the supervisor."""

import signal
from enum import IntEnum


class WorkerExit(IntEnum):
    """Why a worker ended by itself. Signals are negative, as asyncio reports them."""

    OK = 0  # the front closed the channel
    LOAD_FAILED = 3  # LoadFailed was said
    BAD_LAUNCH = 4  # the launch spec could not be read
    CHANNEL_BROKEN = 5  # the front broke the protocol or stopped reading
    INTERNAL = 70  # an unexpected exception
    ORPHANED = 99  # the parent is not the front that wrote the launch spec


def describe_exit(status: int) -> str:
    """Return words for an exit status as asyncio gives it: negative numbers are signals."""
    if status >= 0:
        return f"exit status {status}"

    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"

    hint = " (perhaps out of memory)" if -status == signal.SIGKILL else ""
    return f"{name}{hint}"
