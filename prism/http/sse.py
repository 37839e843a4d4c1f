"""One stream of server-sent events: its headers, its writes, its pings, its end.

The end is always `data: [DONE]`, after an error event if the answer failed. Nothing else in the server writes it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiohttp import hdrs, web

from prism.api.errors import ApiError, error_body

_HEADERS = {
    hdrs.CONTENT_TYPE: "text/event-stream; charset=utf-8",
    hdrs.CACHE_CONTROL: "no-cache",
    # A proxy that collects the stream would hide every token until the last.
    "X-Accel-Buffering": "no",
}
_DONE = b"data: [DONE]\n\n"
_PING = b": ping\n\n"


class EventStream:
    """A prepared response to a request. `write` takes whole events, each made by `event`."""

    def __init__(self, request: web.Request, response: web.StreamResponse) -> None:
        self._connection = request.protocol
        self._response = response
        self._written = 0

    async def write(self, events: bytes) -> None:
        """Send events. Raises ConnectionError when the client has left; waits while it does not read, until its connection is ended."""
        self._written += 1
        await self._response.write(events)

    async def write_error(self, error: ApiError) -> None:
        """Send the error event that comes before the end."""
        await self.write(event(error_body(error)))

    async def _ping(self, every_s: float) -> None:
        while True:
            before = self._written
            await asyncio.sleep(every_s)

            # A client that has not taken what was sent before knows that the answer goes on, and pings would only pile up for it.
            if self._written == before and not self._connection.writing_paused:
                await self._response.write(_PING)


def event(data: bytes) -> bytes:
    """Return one event. data: JSON without line breaks."""
    return b"data: %b\n\n" % data


@contextlib.asynccontextmanager
async def open_event_stream(
    request: web.Request, headers: dict[str, str], ping_s: float
) -> AsyncIterator[tuple[web.StreamResponse, EventStream]]:
    """Send the headers, and the end when the block ends. ping_s: a comment goes out after this long a silence; 0 for never.

    The response has to be returned by the handler.
    """
    response = web.StreamResponse(headers={**_HEADERS, **headers})
    await response.prepare(request)
    stream = EventStream(request, response)
    pinging = asyncio.create_task(stream._ping(ping_s)) if ping_s > 0 else None

    try:
        yield response, stream
        await response.write(_DONE)
        await response.write_eof()
    finally:
        if pinging is not None:
            pinging.cancel()

            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await pinging
