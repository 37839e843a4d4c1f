"""Every route of the server as plain facts: method, path, bodies, and the statuses of its errors.

Read by `prism.api.openapi`; the router may be tested against it. Pure.
"""

from typing import Final

import msgspec

from prism.api.admin_request import DrainRequest, UnloadRequest
from prism.api.chat_request import ChatRequest
from prism.api.completion_request import CompletionRequest
from prism.api.embeddings_request import EmbeddingsRequest
from prism.api.responses import ChatChunk, ChatCompletion, Completion, EmbeddingList
from prism.api.server_responses import Drained, Health, ModelCard, ModelList, Readiness, Unloaded


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path.

    path: with `{name}` for a part that varies. errors: statuses of the error envelope, beside those of every route.
    event: type of the events when the answer is streamed; None when it never is. not_ready: type of a 503 that is no error.
    is_public: answers without a key.
    """

    method: str
    path: str
    name: str
    summary: str
    request: type[msgspec.Struct] | None = None
    is_body_optional: bool = False
    response: type[msgspec.Struct]
    event: type[msgspec.Struct] | None = None
    not_ready: type[msgspec.Struct] | None = None
    errors: tuple[int, ...] = ()
    is_public: bool = False


ERRORS_OF_EVERY_ROUTE: Final = (403, 405, 500)
_ERRORS_OF_A_BODY: Final = (400, 408, 413, 415)
_ERRORS_OF_GENERATION: Final = (*_ERRORS_OF_A_BODY, 404, 502, 503)


def _health(path: str, name: str) -> Route:
    return Route(
        method="GET",
        path=path,
        name=name,
        summary="State of the server, the resident model and the GPU",
        response=Health,
        is_public=True,
    )


ROUTES: Final[tuple[Route, ...]] = (
    Route(method="GET", path="/v1/models", name="listModels", summary="ONNX and Ollama models", response=ModelList),
    Route(
        method="GET",
        path="/v1/models/{id}",
        name="getModel",
        summary="One model",
        response=ModelCard,
        errors=(400, 404, 502),
    ),
    Route(
        method="POST",
        path="/v1/chat/completions",
        name="createChatCompletion",
        summary="Chat completion, streaming or not",
        request=ChatRequest,
        response=ChatCompletion,
        event=ChatChunk,
        errors=_ERRORS_OF_GENERATION,
    ),
    Route(
        method="POST",
        path="/v1/completions",
        name="createCompletion",
        summary="Text completion of a raw prompt, streaming or not",
        request=CompletionRequest,
        response=Completion,
        event=Completion,
        errors=_ERRORS_OF_GENERATION,
    ),
    Route(
        method="POST",
        path="/v1/embeddings",
        name="createEmbeddings",
        summary="Embeddings, Ollama models only",
        request=EmbeddingsRequest,
        response=EmbeddingList,
        errors=_ERRORS_OF_GENERATION,
    ),
    Route(
        method="POST",
        path="/v1/unload",
        name="unloadModel",
        summary="Stop the resident model's process, which frees its memory",
        request=UnloadRequest,
        is_body_optional=True,
        response=Unloaded,
        errors=(*_ERRORS_OF_A_BODY, 503),
    ),
    Route(
        method="POST",
        path="/v1/drain",
        name="drainServer",
        summary="Finish the running generation, unload, and exit with status 0",
        request=DrainRequest,
        is_body_optional=True,
        response=Drained,
        errors=_ERRORS_OF_A_BODY,
    ),
    _health("/health", "health"),
    _health("/v1/health", "healthV1"),
    _health("/v1/status", "statusV1"),
    Route(
        method="GET",
        path="/health/ready",
        name="ready",
        summary="Whether a request would be taken now",
        response=Readiness,
        not_ready=Readiness,
        is_public=True,
    ),
)
