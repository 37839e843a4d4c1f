"""What happened to turns, workers and requests, as JSON lines for those who replay it: one resident at a time, one end for each request.

Off unless the operator names a file. Written by `Turns`, `Loader` and `WorkerHistory`, in the event loop's thread, in the order in which
things happened. A line blocks for one write to a local file. A file that cannot be written ends the log, never the server.

Every line has `at` (seconds of the monotonic clock, which all processes of the machine share) and `event`:

turn_given       model: of the request that has the turn; null for an operator's command or a load that is given up
turn_shared      model, places: up to so many requests for this model may have the turn together from now on
turn_claimed     nobody joins any more, until it is shared again
turn_released    by one of those that have it
started          worker (its number), model, pid
loaded           worker, parallel: how many requests it takes at once
load_failed      worker, code
request_begun    worker, request: its number on this worker
request_ended    worker, request, end: what the worker said
ended            worker, is_fault, reason: the worker serves no more; is_fault: it died, hung or broke the protocol
gone             worker: its process is reaped
"""

import json
import logging
import os
import time
from pathlib import Path

logger = logging.getLogger(__name__)


class EventLog:
    """path: where lines are added; None for no log."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._fd: int | None = None

        if path is not None:
            self._open(path)

    def _open(self, path: Path) -> None:
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            logger.error("no events are written to %s: %s", path, error.strerror)

    def write(self, event: str, **fields: str | int | bool | None) -> None:
        """Add one line."""
        if self._fd is None:
            return

        line = json.dumps({"at": round(time.monotonic(), 6), "event": event, **fields}) + "\n"

        try:
            # One call for a line, so that a front that is killed leaves no half of one.
            os.write(self._fd, line.encode())
        except OSError as error:
            logger.error("events are no longer written to %s: %s", self._path, error.strerror)
            self.close()

    def close(self) -> None:
        """End the log. What happens after it is not written."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
