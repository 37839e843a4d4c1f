"""Reading the body of a request, within bounds of size and time."""

import asyncio

from aiohttp import HttpVersion11, hdrs, web

from prism.api.refusals import body_too_large, invalid_request, request_timeout, unsupported_media_type
from prism.http.protocol import JsonConnection
from prism.http.services import SERVICES

MAX_BODY_BYTES = 10 * 1024 * 1024
# A body that is not here by then is not coming: 10 MiB in this time is a third of a MiB a second.
BODY_TIMEOUT_S = 30.0


async def read_body(request: web.Request) -> bytes:
    """Return the whole body. Raises ApiError: 415 for a compressed one, 413 past MAX_BODY_BYTES, 408 past BODY_TIMEOUT_S,
    503 when the bodies of all requests together are too large.

    A body whose length says that it is too large is refused before it is read.
    """
    encoding = ", ".join(request.headers.getall(hdrs.CONTENT_ENCODING, ["identity"]))

    if encoding.lower() != "identity":
        raise unsupported_media_type(encoding)

    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise body_too_large(MAX_BODY_BYTES)

    _invite(request)

    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await _read_bounded(request)
    except TimeoutError:
        if isinstance(request.protocol, JsonConnection):
            request.protocol.linger_briefly()

        raise request_timeout() from None
    except web.RequestPayloadError as error:
        raise invalid_request(f"The body cannot be read: {error}") from error


async def _read_bounded(request: web.Request) -> bytes:
    """Read a body that may be chunked, and thus of a length that nobody knows before."""
    room = request.app[SERVICES].bodies
    parts = []
    size = 0

    async for part in request.content.iter_any():
        size += len(part)

        if size > MAX_BODY_BYTES:
            raise body_too_large(MAX_BODY_BYTES)

        room.hold(request, size)
        parts.append(part)

    return parts[0] if len(parts) == 1 else b"".join(parts)


def _invite(request: web.Request) -> None:
    """Tell a client that waits for it (`Expect: 100-continue`) to send the body. Other expectations are ignored."""
    is_waiting = request.headers.get(hdrs.EXPECT, "").lower() == "100-continue"

    if is_waiting and request.version >= HttpVersion11 and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def leave_expectation(_: web.Request) -> None:
    """Do nothing where aiohttp would ask for the body: host, key and size are looked at before anybody should send it."""
