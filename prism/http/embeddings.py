"""POST /v1/embeddings: ONNX models make none, and Ollama's models are not served yet, so every valid request is refused with its reason."""

from typing import NoReturn

from aiohttp import web

from prism.api.embeddings_request import decode_embeddings_request
from prism.api.refusals import embeddings_not_supported
from prism.http.body import read_body
from prism.http.onnx_model import resolve_onnx_model
from prism.http.services import SERVICES


async def embeddings(request: web.Request) -> NoReturn:
    """Refuse: the body's own faults first, then what the model's name leads to."""
    wanted = decode_embeddings_request(await read_body(request))
    entry = await resolve_onnx_model(request.app[SERVICES], wanted.model)
    raise embeddings_not_supported(entry.id)
