"""GET /openapi.json: the API as a document, generated from the types that decode and encode it. Public."""

from functools import cache

import msgspec
from aiohttp import web

from prism import __version__
from prism.api.openapi import openapi_document


async def openapi(_: web.Request) -> web.Response:
    """Answer with the document, made at the first request."""
    return web.Response(body=_document(), content_type="application/json")


@cache
def _document() -> bytes:
    return msgspec.json.encode(openapi_document(__version__))
