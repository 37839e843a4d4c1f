"""POST /v1/embeddings: models of the Ollama daemon make them; ONNX models make none, and say so."""

import asyncio

import msgspec
from aiohttp import web

from prism.api.embeddings_request import (
    EmbeddingsRequest,
    decode_embeddings_request,
    embedding_inputs,
    wants_base64,
)
from prism.api.refusals import embeddings_not_supported
from prism.api.responses import Embedding, EmbeddingList, EmbeddingsUsage
from prism.http.body import read_body
from prism.http.model_names import OllamaModel, resolve_model
from prism.http.ollama_faults import Asked
from prism.http.services import SERVICES
from prism.ollama.embeddings import as_base64, ask_embeddings, read_embeddings


async def embeddings(request: web.Request) -> web.Response:
    """Answer, after the body's own faults, with what the model's name leads to."""
    services = request.app[SERVICES]
    wanted = decode_embeddings_request(await read_body(request))
    found = await resolve_model(services, wanted.model)

    if not isinstance(found, OllamaModel):
        raise embeddings_not_supported(found.id)

    with Asked(found.name, "input").told():
        answer = await ask_embeddings(services.ollama, found.name, embedding_inputs(wanted))
        body = await asyncio.to_thread(_body, wanted, answer)

    return web.Response(body=body, content_type="application/json")


def _body(wanted: EmbeddingsRequest, answer: bytes) -> bytes:
    """Run in a thread: 256 vectors take a tenth of a second or two."""
    read = read_embeddings(answer, len(embedding_inputs(wanted)))
    tokens = max(read.prompt_eval_count or 0, 0)
    is_base64 = wants_base64(wanted)
    vectors = [as_base64(vector) if is_base64 else vector for vector in read.embeddings or ()]
    return msgspec.json.encode(
        EmbeddingList(
            data=[Embedding(index=number, embedding=vector) for number, vector in enumerate(vectors)],
            model=wanted.model,
            usage=EmbeddingsUsage(prompt_tokens=tokens, total_tokens=tokens),
        )
    )
