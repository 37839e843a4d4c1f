"""The connection: bounds on the time that a client takes, errors below the application as JSON, and no traceback for what strangers send.

aiohttp answers malformed requests below the application, in plain text, and bounds neither headers nor readers; it has no public place to
change that, so this is the one file that overrides protected methods of aiohttp. `tests/contract/test_malformed_http.py` and
`tests/contract/test_slow_clients.py` tell when an upgrade moves them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import RequestHandler, _ErrInfo

from prism.api.errors import ApiError
from prism.api.refusals import internal_error, request_timeout
from prism.http.connection_bound import Place
from prism.http.envelope import SERVER_NAME, error_response
from prism.http.header_timer import HeaderTimer
from prism.http.send_guard import SendGuard

logger = logging.getLogger(__name__)

# A connection beyond the bound holds one of few places: it has to say soon what it wants.
CROWDED_HEADER_S = 3.0
# After an answer that came before the end of a body, what is still sent is read for this long, so that the client can read the answer;
# aiohttp gives ten seconds.
_SHORT_LINGER_S = 1.0
# Of one request, if they come in parts. aiohttp bounds each header and their number, which together allow a megabyte.
MAX_HEADER_BYTES = 65_536

_RequestHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class ConnectionTimes:
    """Bounds of one connection, 0 for none.

    header_s: for the headers of a request. send_s: how long a client may take nothing while something waits for it.
    """

    header_s: float
    send_s: float


class JsonConnection(RequestHandler):
    """One connection of a client."""

    __slots__ = ("_awaited", "_body", "_guard", "_header_bytes", "_header_timer", "_place", "_times")

    def __init__(
        self,
        manager: web.Server,
        place: Place,
        times: ConnectionTimes,
        **kwargs: Any,  # noqa: ANN401 - aiohttp's own
    ) -> None:
        super().__init__(manager, loop=asyncio.get_running_loop(), **kwargs)
        self._place = place
        self._times = times
        header_s = min(times.header_s or CROWDED_HEADER_S, CROWDED_HEADER_S) if place.is_crowded else times.header_s
        self._header_timer = HeaderTimer(header_s, self._end_late_headers)
        self._guard: SendGuard | None = None
        # The body of the last request, whose bytes are no headers; which request is awaited; how much of its headers has come.
        self._body: StreamReader = EMPTY_PAYLOAD
        self._awaited = 0
        self._header_bytes = 0

    @property
    def is_crowded(self) -> bool:
        """Whether the connection is one beyond the bound."""
        return self._place.is_crowded

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        # Then writing is paused whenever the kernel has not taken everything.
        transport.set_write_buffer_limits(high=0)
        self._guard = SendGuard(transport, self._times.send_s, self._written)
        self._header_timer.begin()

        if self._place.is_crowded:
            self.linger_briefly()

    def linger_briefly(self) -> None:
        """Wait no longer than a moment for the rest of a body that nobody wants."""
        self._lingering_time = _SHORT_LINGER_S

    def connection_lost(self, exc: BaseException | None) -> None:
        """End."""
        super().connection_lost(exc)
        self._header_timer.end()
        self._place.free()

        if self._guard is not None:
            self._guard.end()

    def pause_writing(self) -> None:
        """Called by the transport when something waits for the client."""
        super().pause_writing()

        if self._guard is not None:
            self._guard.begin()

    def resume_writing(self) -> None:
        """Called by the transport when nothing waits any more."""
        super().resume_writing()

        if self._guard is not None:
            self._guard.end()

    def data_received(self, data: bytes) -> None:
        """Take bytes, and watch how long headers take. Tells the reader of a body when it turns out to be malformed."""
        before = self._request_count
        is_body = self._is_body_expected()
        super().data_received(data)

        if self._messages:
            _, self._body = self._messages[-1]

        if self._request_count != before:
            self._header_bytes = 0
            self._header_timer.end()
        elif not is_body and data.strip(b"\r\n"):
            self._await_headers(len(data))

        self._fail_bad_body()

    def _is_body_expected(self) -> bool:
        request = self._current_request
        return not self._body.is_eof() or (request is not None and not request.content.is_eof())

    def _await_headers(self, size: int) -> None:
        """Note that a part of a request's headers has come, of this many bytes."""
        if self._awaited != self._request_count:
            self._awaited = self._request_count
            self._header_bytes = 0

        self._header_timer.begin()
        self._header_bytes += size

        if self._header_bytes > MAX_HEADER_BYTES:
            fault = HttpProcessingError(message=f"The headers are larger than {MAX_HEADER_BYTES} bytes")
            self._refuse(400, fault, fault.message)

    def _refuse(self, status: int, fault: Exception, message: str = "") -> None:
        """Have `handle_error` answer as soon as what was sent before is answered, and close."""
        self._request_count += 1
        self._messages.append((_ErrInfo(status, fault, message), EMPTY_PAYLOAD))

        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

        # What still comes is of no interest.
        self.close()

    def _end_late_headers(self) -> None:
        if self._request_count != self._awaited:
            # They came, by a way that no byte of ours has seen: held back by aiohttp while it answered a wish to upgrade.
            return

        if self._waiter is None or self._waiter.done():
            # They were sent ahead, and the answer before them is not over.
            self._header_timer.begin()
        elif self._header_bytes:
            self._refuse(408, TimeoutError())
        else:
            # A client that has sent nothing expects nothing, and might take an answer for that to its first request.
            self.force_close()

    def _fail_bad_body(self) -> None:
        """Tell the reader of a body when it turned out to be malformed, who would wait for its rest otherwise."""
        request = self._current_request

        # Nothing but the news of a fault can be in the queue while a body has not ended.
        if request is not None and self._messages and not request.content.is_eof():
            request.content.set_exception(web.RequestPayloadError("it is not encoded as its headers say"))
            # Else the rest would be waited for after the answer; and what is queued would be a second answer.
            request.content.feed_eof()
            self._messages.clear()
            self.close()

    def _written(self) -> int:
        """Return how much of the answer was written that is being written by a handler."""
        request = self._current_request
        return 0 if request is None else request.writer.output_size

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what never became a request of the application (bad syntax, a header that is too long or too late), and close."""
        if isinstance(exc, ConnectionError):
            # Nobody is there to read the answer, and nothing is wrong with the server.
            error = internal_error()
        elif status >= 500:
            logger.error("a connection failed with %d", status, exc_info=exc)
            error = internal_error()
        elif isinstance(exc, TimeoutError):
            error = request_timeout()
        else:
            logger.info("malformed HTTP from %s", request.remote)
            error = ApiError(status, f"This is not valid HTTP: {_first_line(message or str(exc))}")

        self.keep_alive(False)  # noqa: FBT003  # the name is aiohttp's
        response = error_response(error)
        response.headers[hdrs.SERVER] = SERVER_NAME
        response.force_close()
        return response


class _JsonServer(web.Server):
    """A server whose connections are `JsonConnection`s."""

    def connection(self, place: Place, times: ConnectionTimes) -> JsonConnection:
        return JsonConnection(self, place, times, **self._kwargs)


class Runner(web.AppRunner):
    """Runs an application on `JsonConnection`s."""

    __slots__ = ("_times",)

    def __init__(self, app: web.Application, times: ConnectionTimes, **kwargs: Any) -> None:  # noqa: ANN401 - aiohttp's own
        super().__init__(app, **kwargs)
        self._times = times

    def connect(self, place: Place) -> JsonConnection:
        """Make a connection, to be used by the event loop. Needs `setup`."""
        assert isinstance(self._server, _JsonServer)
        return self._server.connection(place, self._times)

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        return _JsonServer(
            _in_envelope(server.request_handler),
            request_factory=server.request_factory,
            handler_cancellation=server.handler_cancellation,
            loop=server._loop,
            **server._kwargs,
        )


def _in_envelope(handle: _RequestHandler) -> _RequestHandler:
    """Return the handler of requests with aiohttp's own refusals (of an unknown `Expect`, where no route is) as JSON."""

    async def enveloped(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await handle(request)
        except web.HTTPException as error:
            return error_response(ApiError(error.status, error.text or error.reason))

    return enveloped


def _first_line(text: str) -> str:
    # What follows is the beginning of the sender's own bytes.
    text = text.partition(" when reading")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0].rstrip(":") if lines else "it cannot be parsed"
