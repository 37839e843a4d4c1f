"""The one middleware: what must hold before a handler runs, and the envelope around every error.

Order of checks (the first that fails answers): Host, Origin, route (404, 405), key, number of connections. Size, JSON and all else are the
handlers'. The handlers of PUBLIC need no key, those of UNCROWDED answer on any connection.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web

from prism.api.refusals import (
    host_not_allowed,
    invalid_api_key,
    method_not_allowed,
    not_found,
    origin_not_allowed,
    too_many_connections,
)
from prism.http.access import AccessRules
from prism.http.envelope import SERVER_NAME, error_response
from prism.http.error_table import to_api_error
from prism.http.protocol import JsonConnection
from prism.http.services import SERVICES

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

REQUEST_ID_HEADER = "X-Request-Id"
_MAX_REQUEST_ID_CHARS = 128
# A preflight may be believed for this long, so that a page does not ask before each request.
_PREFLIGHT_AGE_S = 600
_ALLOWED_METHODS = "GET, HEAD, POST, OPTIONS"

PUBLIC: web.AppKey[frozenset[Handler]] = web.AppKey("public", frozenset)
UNCROWDED: web.AppKey[frozenset[Handler]] = web.AppKey("uncrowded", frozenset)


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Check, handle, and turn whatever is raised into the JSON envelope. A client that has left gets nothing."""
    try:
        access = request.app[SERVICES].access
        _check_host(request, access)
        _check_origin(request, access)

        if request.method == hdrs.METH_OPTIONS:
            return _preflight(request, access)

        _check_route(request)
        _check_key(request, access)
        _check_crowd(request)
        return await handler(request)
    except ConnectionError:
        # Raised by a write to a client that has left. aiohttp closes what is left of the connection.
        raise
    except Exception as error:
        return error_response(to_api_error(error))
    finally:
        request.app[SERVICES].bodies.free(request)


def _check_host(request: web.Request, access: AccessRules) -> None:
    hosts = request.headers.getall(hdrs.HOST, [])

    if not access.allows_host(hosts, request.raw_path):
        raise host_not_allowed(", ".join(hosts))


def _check_origin(request: web.Request, access: AccessRules) -> None:
    for origin in request.headers.getall(hdrs.ORIGIN, []):
        if not access.allows_origin(origin, request.headers.get(hdrs.HOST, "")):
            raise origin_not_allowed(origin)


def _check_route(request: web.Request) -> None:
    problem = request.match_info.http_exception

    if isinstance(problem, web.HTTPMethodNotAllowed):
        raise method_not_allowed(request.method, request.path, sorted(problem.allowed_methods))

    if problem is not None:
        raise not_found(request.path)


def _check_key(request: web.Request, access: AccessRules) -> None:
    if request.match_info.handler in request.app[PUBLIC]:
        return

    if not access.allows_key(request.headers.get(hdrs.AUTHORIZATION)):
        raise invalid_api_key()


def _is_crowded(request: web.Request) -> bool:
    return isinstance(request.protocol, JsonConnection) and request.protocol.is_crowded


def _check_crowd(request: web.Request) -> None:
    if _is_crowded(request) and request.match_info.handler not in request.app[UNCROWDED]:
        raise too_many_connections()


def _preflight(request: web.Request, access: AccessRules) -> web.Response:
    """Answer OPTIONS. What a page may send is what it asks for: the key and the checks of the real request decide."""
    problem = request.match_info.http_exception
    allowed = sorted(problem.allowed_methods) if isinstance(problem, web.HTTPMethodNotAllowed) else []
    headers = {hdrs.ALLOW: ", ".join([*allowed, hdrs.METH_OPTIONS]) if allowed else _ALLOWED_METHODS}
    origin = request.headers.get(hdrs.ORIGIN)

    if origin is not None and access.cors_origin(origin) is not None:
        headers[hdrs.ACCESS_CONTROL_ALLOW_METHODS] = _ALLOWED_METHODS
        headers[hdrs.ACCESS_CONTROL_ALLOW_HEADERS] = request.headers.get(
            hdrs.ACCESS_CONTROL_REQUEST_HEADERS, "Content-Type, Authorization"
        )
        headers[hdrs.ACCESS_CONTROL_MAX_AGE] = str(_PREFLIGHT_AGE_S)

    return web.Response(status=204, headers=headers)


async def add_common_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Put on every answer, streams and errors included, what belongs on all: the request's id and the rights of a page."""
    response.headers[REQUEST_ID_HEADER] = _request_id(request)
    response.headers[hdrs.SERVER] = SERVER_NAME
    origin = request.headers.get(hdrs.ORIGIN)
    access = request.app[SERVICES].access

    if _is_crowded(request):
        # Others wait for its place.
        response.headers[hdrs.CONNECTION] = "close"
        response.force_close()

    if access.cors_origins:
        response.headers[hdrs.VARY] = hdrs.ORIGIN

    if origin is not None and (allowed := access.cors_origin(origin)) is not None:
        response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = allowed
        response.headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = (
            f"{REQUEST_ID_HEADER}, Retry-After, X-Prism-Dropped-Parts"
        )


def _request_id(request: web.Request) -> str:
    """Echo the client's id if it is one line of plain characters, else make one."""
    given = request.headers.get(REQUEST_ID_HEADER, "")
    is_plain = given.isascii() and given.isprintable() and 0 < len(given) <= _MAX_REQUEST_ID_CHARS
    return given if is_plain else f"req-{secrets.token_hex(12)}"
