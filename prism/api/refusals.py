"""One small constructor for each documented error, so that the same fault reads the same wherever it is found.

Called by handlers, by middleware and by the checks of this package. Pure; statuses live in `prism.api.errors.ERROR_TABLE`.
"""

from collections.abc import Sequence

from prism.api.errors import ApiError, ErrorCode, refusal


def invalid_request(message: str, param: str | None = None) -> ApiError:
    """A 400 without a code: JSON, shapes, numbers."""
    return ApiError(400, message, param=param)


def internal_error() -> ApiError:
    """A 500 for a fault of ours. The text of the exception goes to the log, not to the client."""
    return ApiError(500, "The server failed to answer this request; its log has the reason.")


def ambiguous_model(name: str, candidates: Sequence[str]) -> ApiError:
    """The name fits several models; all of them are listed."""
    return refusal(
        ErrorCode.AMBIGUOUS_MODEL,
        f"The model name '{name}' fits several models: {', '.join(candidates)}. Use one of these names.",
        param="model",
    )


def model_not_found(reason: str) -> ApiError:
    """No model is meant by the name. reason: a whole sentence."""
    return refusal(ErrorCode.MODEL_NOT_FOUND, reason, param="model")


def context_length_exceeded(reason: str, param: str) -> ApiError:
    """The prompt leaves no room for an answer. reason: both numbers, in words. param: `messages` or `prompt`."""
    return refusal(ErrorCode.CONTEXT_LENGTH_EXCEEDED, reason, param=param)


def tools_not_supported(model: str) -> ApiError:
    """The model's chat template has no place for tools."""
    return refusal(
        ErrorCode.TOOLS_NOT_SUPPORTED,
        f"The chat template of the model '{model}' cannot take tools. Send the request without tools or choose another model.",
        param="tools",
    )


def template_render_failed(model: str, reason: str) -> ApiError:
    """The model's chat template raised. reason: the text of its exception."""
    return refusal(
        ErrorCode.TEMPLATE_RENDER_FAILED,
        f"The chat template of the model '{model}' failed on these messages: {reason}",
        param="messages",
    )


def unsupported_parameter(param: str, reason: str) -> ApiError:
    """The field is valid and would change the answer, but cannot be honoured. reason: a whole sentence."""
    return refusal(ErrorCode.UNSUPPORTED_PARAMETER, reason, param=param)


def embeddings_not_supported(model: str, reason: str = "ONNX models do not produce embeddings") -> ApiError:
    """The model makes no embeddings."""
    return refusal(
        ErrorCode.EMBEDDINGS_NOT_SUPPORTED,
        f"The model '{model}' cannot be used for embeddings: {reason}. Use an Ollama embedding model such as 'ollama:nomic-embed-text'.",
        param="model",
    )


def dimensions_not_supported() -> ApiError:
    """`dimensions` was sent."""
    return refusal(
        ErrorCode.DIMENSIONS_NOT_SUPPORTED,
        "'dimensions' is not supported: embeddings have the size that the model gives them.",
        param="dimensions",
    )


def invalid_api_key() -> ApiError:
    """The bearer token is missing or wrong. Which of the two is not said."""
    return refusal(
        ErrorCode.INVALID_API_KEY,
        "This server asks for a key: send 'Authorization: Bearer <key>' with the right one.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def host_not_allowed(host: str) -> ApiError:
    """The Host header does not name this machine although the server listens on loopback only."""
    return refusal(
        ErrorCode.HOST_NOT_ALLOWED,
        f"The host '{host}' is not allowed: this server answers only to a loopback name or address.",
    )


def origin_not_allowed(origin: str) -> ApiError:
    """A browser page of a foreign origin."""
    return refusal(
        ErrorCode.ORIGIN_NOT_ALLOWED, f"Pages of the origin '{origin}' may not use this server (see --cors-origin)."
    )


def not_found(path: str) -> ApiError:
    """No such route."""
    return refusal(ErrorCode.NOT_FOUND, f"There is nothing at '{path}'.")


def method_not_allowed(method: str, path: str, allowed: Sequence[str]) -> ApiError:
    """The route exists and takes other methods."""
    methods = ", ".join(allowed)

    return refusal(ErrorCode.METHOD_NOT_ALLOWED, f"'{path}' takes {methods}, not {method}.", headers={"Allow": methods})


def request_timeout() -> ApiError:
    """Headers or body came too slowly. The connection cannot be used again: the rest of the request may still come."""
    return refusal(ErrorCode.REQUEST_TIMEOUT, "The request was not complete in time.", headers={"Connection": "close"})


def too_many_connections() -> ApiError:
    """As many clients are connected as may be. The connection ends, so that its place is free for the next."""
    return refusal(
        ErrorCode.SERVER_BUSY, "Too many clients are connected to this server.", headers={"Connection": "close"}
    )


def too_many_bodies() -> ApiError:
    """The bodies that are being received and answered take as much memory as they may. The rest of this one is not read."""
    return refusal(
        ErrorCode.SERVER_BUSY,
        "The server has too many large requests to take this one.",
        headers={"Connection": "close"},
    )


def body_too_large(limit_bytes: int) -> ApiError:
    """The body is past the limit; it was not read."""
    return refusal(ErrorCode.BODY_TOO_LARGE, f"The body is larger than {limit_bytes} bytes.")


def unsupported_media_type(encoding: str) -> ApiError:
    """A compressed body."""
    return refusal(
        ErrorCode.UNSUPPORTED_MEDIA_TYPE,
        f"The Content-Encoding '{encoding}' is not supported: send the body uncompressed.",
        headers={"Accept-Encoding": "identity"},
    )


def backend_unavailable(reason: str) -> ApiError:
    """Ollama is unreachable or failed."""
    return refusal(ErrorCode.BACKEND_UNAVAILABLE, f"Ollama could not answer: {reason}")
