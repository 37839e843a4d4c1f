"""What becomes of errors that no request owns and no caller hears: callbacks of the event loop. Used by `prism.http.serve`.

One in the code that owns workers and turns means that a promise may be broken: a worker that is never told to be gone, a turn that is never
given. The server ends then. Any other is one connection's: a client that leaves at the wrong moment, no descriptor for the next one.
"""

import asyncio
import os
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from prism.exit_codes import ExitCode
from supervisor.errors import SupervisorError

# Their callbacks are not on behalf of one connection.
_OWNERS_OF_WORKERS = ("supervisor.", "ipc.")
# From the fault to the end of the process, whatever hangs by then.
LAST_RESORT_S = 8.0


@contextmanager
def watched_loop(on_fault: Callable[[BaseException], None]) -> Iterator[None]:
    """Look at what the running loop reports, until the block ends. on_fault: called for what the server cannot live with."""
    loop = asyncio.get_running_loop()
    previous = loop.get_exception_handler()
    has_told = False

    # Any: what the loop puts in is different for each kind of report.
    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal has_told
        error = context.get("exception")
        is_ours = isinstance(error, BaseException) and "handle" in context and is_of_supervision(error)

        if is_ours and has_told:
            # A reader that breaks is called again at once, thousands of times until the end.
            return

        loop.default_exception_handler(context)

        if isinstance(error, BaseException) and is_ours:
            has_told = True
            on_fault(error)

    loop.set_exception_handler(handle)

    try:
        yield
    finally:
        loop.set_exception_handler(previous)


def is_of_supervision(error: BaseException) -> bool:
    """Say whether an error that nobody foresaw came through the code that owns workers and turns."""
    if isinstance(error, SupervisorError):
        return False

    frames = traceback.walk_tb(error.__traceback__)
    return any(str(frame.f_globals.get("__name__", "")).startswith(_OWNERS_OF_WORKERS) for frame, _ in frames)


def end_for_sure() -> None:
    """End the process after LAST_RESORT_S, from a thread: the loop itself may be what is broken. The kernel ends the workers then."""
    last_resort = threading.Timer(LAST_RESORT_S, os._exit, (ExitCode.SOFTWARE,))
    last_resort.daemon = True
    last_resort.start()
