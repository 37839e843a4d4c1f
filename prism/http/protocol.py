"""The connection: what is no HTTP gets the JSON envelope too, and no traceback is logged for what strangers send.

aiohttp answers malformed requests below the application, in plain text; its runner has no public place to change that, so this is the one
file that overrides protected methods of aiohttp. `tests/contract/test_malformed_http.py` tells when an upgrade moves them.
"""

import logging
from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web
from aiohttp.web_protocol import RequestHandler

from prism.api.errors import ApiError
from prism.api.refusals import internal_error
from prism.http.guard import SERVER_NAME, error_response

logger = logging.getLogger(__name__)

_RequestHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class JsonConnection(RequestHandler):
    """One connection of a client."""

    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        """Take bytes. Tells the reader of a body when it turns out to be malformed, who would wait for its rest otherwise."""
        super().data_received(data)
        request = self._current_request

        # Nothing but the news of a fault can be in the queue while a body has not ended.
        if request is not None and self._messages and not request.content.is_eof():
            request.content.set_exception(web.RequestPayloadError("it is not encoded as its headers say"))
            # Else the rest would be waited for after the answer; and what is queued would be a second answer.
            request.content.feed_eof()
            self._messages.clear()
            self.close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what never became a request of the application (bad syntax, a header that is too long), and close."""
        if isinstance(exc, ConnectionError):
            # Nobody is there to read the answer, and nothing is wrong with the server.
            error = internal_error()
        elif status >= 500:
            logger.error("a connection failed with %d", status, exc_info=exc)
            error = internal_error()
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

    def __call__(self) -> RequestHandler:
        return JsonConnection(self, loop=self._loop, **self._kwargs)


class Runner(web.AppRunner):
    """Runs an application on `JsonConnection`s."""

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
