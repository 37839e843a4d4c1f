"""An error as an answer: the JSON envelope around it, for the middleware and for the connection below it. Pure."""

from aiohttp import hdrs, web

from prism.api.errors import ApiError, error_body

SERVER_NAME = "prism"


def error_response(error: ApiError) -> web.Response:
    """Return the envelope as an answer. One that says so ends the connection."""
    response = web.Response(
        status=error.status, body=error_body(error), content_type="application/json", headers=error.headers
    )

    if response.headers.get(hdrs.CONNECTION) == "close":
        # The header alone would only be said, and the connection kept.
        response.force_close()

    return response
