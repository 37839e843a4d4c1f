"""The application: its routes, and the one way to run it. Tests build it through the same functions as production.

`handler_cancellation` is off in aiohttp unless asked for, and without it a handler whose client has left runs to its end.
"""

from aiohttp import hdrs, web

from prism.http.admin import drain, unload
from prism.http.body import leave_expectation
from prism.http.embeddings import embeddings
from prism.http.guard import PUBLIC, UNCROWDED, Handler, add_common_headers, guard
from prism.http.health import health, ready
from prism.http.late import chat_completions, completions
from prism.http.models import get_model, list_models
from prism.http.openapi_page import openapi
from prism.http.protocol import ConnectionTimes, Runner
from prism.http.services import SERVICES, Services

# A client keeps its connection for a next request this long.
KEEP_ALIVE_S = 75.0
# What is still being written when the server ends gets this long.
SHUTDOWN_TIMEOUT_S = 2.0
READ_BUFFER_BYTES = 65_536
_ANY_SLASHES = "{slashes:/*}"

ROUTES: tuple[tuple[str, str, Handler], ...] = (
    (hdrs.METH_GET, "/v1/models", list_models),
    (hdrs.METH_GET, "/v1/models/{id:.*[^/]}", get_model),
    (hdrs.METH_POST, "/v1/chat/completions", chat_completions),
    (hdrs.METH_POST, "/v1/completions", completions),
    (hdrs.METH_POST, "/v1/embeddings", embeddings),
    (hdrs.METH_POST, "/v1/unload", unload),
    (hdrs.METH_POST, "/v1/drain", drain),
    (hdrs.METH_GET, "/health", health),
    (hdrs.METH_GET, "/v1/health", health),
    (hdrs.METH_GET, "/v1/status", health),
    (hdrs.METH_GET, "/health/ready", ready),
    (hdrs.METH_GET, "/openapi.json", openapi),
)
_PUBLIC_HANDLERS: frozenset[Handler] = frozenset((health, ready, openapi))


def make_app(services: Services) -> web.Application:
    """Return the application with all routes. Trailing slashes are accepted everywhere, and HEAD where GET is."""
    app = web.Application(middlewares=[guard])
    app[SERVICES] = services
    app[PUBLIC] = _PUBLIC_HANDLERS
    # Who looks after a crowded server must reach it.
    app[UNCROWDED] = _PUBLIC_HANDLERS | {unload, drain}
    app.on_response_prepare.append(add_common_headers)

    for method, path, handler in ROUTES:
        for accepted in (method, hdrs.METH_HEAD) if method == hdrs.METH_GET else (method,):
            app.router.add_route(accepted, path + _ANY_SLASHES, handler, expect_handler=leave_expectation)

    return app


def make_runner(services: Services) -> Runner:
    """Return what serves the application on connections. Not set up yet."""
    settings = services.settings
    return Runner(
        make_app(services),
        ConnectionTimes(settings.header_timeout_s, settings.send_timeout_s),
        handle_signals=False,
        access_log=None,
        # The listening socket has it, for all.
        tcp_keepalive=False,
        handler_cancellation=True,
        keepalive_timeout=KEEP_ALIVE_S,
        shutdown_timeout=SHUTDOWN_TIMEOUT_S,
        # Of each connection so much, twice, may be read before somebody wants it.
        read_bufsize=READ_BUFFER_BYTES,
        # A compressed body is refused, so it must not be unpacked before it can be.
        auto_decompress=False,
    )
