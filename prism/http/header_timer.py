"""The time that a client has for the headers of a request, which aiohttp does not bound.

Used by `prism.http.protocol` for one connection. Without it a connection whose headers come byte by byte would be kept for ever.
"""

import asyncio
from collections.abc import Callable


class HeaderTimer:
    """Runs from the first byte of a request, or from the beginning of the connection, until the headers are there.

    timeout_s: 0 for no bound. on_late: called once when they are not there in time.
    """

    def __init__(self, timeout_s: float, on_late: Callable[[], None]) -> None:
        self._timeout_s = timeout_s
        self._on_late = on_late
        self._handle: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        """Whether headers are waited for."""
        return self._handle is not None

    def begin(self) -> None:
        """Start. One that runs goes on: more bytes are no more time."""
        if self._handle is None and self._timeout_s > 0:
            self._handle = asyncio.get_running_loop().call_later(self._timeout_s, self._end_late)

    def end(self) -> None:
        """Stop: the headers are there, or the connection is gone."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _end_late(self) -> None:
        self._handle = None
        self._on_late()
