"""Every error that a client can see: its status, its code, its headers, and the bytes of its body.

`ERROR_TABLE` is the only place that ties a code to a status. Handlers raise `ApiError`, built by `refusal` or by a constructor of
`prism.api.refusals`; one middleware (and the stream writer, after the first byte) turns it into bytes with `error_body`. Pure.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec


class ErrorCode(StrEnum):
    """The codes of the documents. Errors without a code (a plain 400, an unexpected 500) carry null."""

    AMBIGUOUS_MODEL = "ambiguous_model"
    BACKEND_UNAVAILABLE = "backend_unavailable"
    BODY_TOO_LARGE = "body_too_large"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    DIMENSIONS_NOT_SUPPORTED = "dimensions_not_supported"
    EMBEDDINGS_NOT_SUPPORTED = "embeddings_not_supported"
    ENGINE_CRASHED = "engine_crashed"
    ENGINE_UNRESPONSIVE = "engine_unresponsive"
    HOST_NOT_ALLOWED = "host_not_allowed"
    INSUFFICIENT_RESOURCES = "insufficient_resources"
    INVALID_API_KEY = "invalid_api_key"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    MODEL_LOAD_FAILED = "model_load_failed"
    MODEL_NOT_FOUND = "model_not_found"
    MODEL_UNAVAILABLE = "model_unavailable"
    NOT_FOUND = "not_found"
    ORIGIN_NOT_ALLOWED = "origin_not_allowed"
    REQUEST_TIMEOUT = "request_timeout"
    SERVER_BUSY = "server_busy"
    SERVER_DRAINING = "server_draining"
    TEMPLATE_RENDER_FAILED = "template_render_failed"
    TOOLS_NOT_SUPPORTED = "tools_not_supported"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    UNSUPPORTED_PARAMETER = "unsupported_parameter"


class ErrorRow(NamedTuple):
    """status: HTTP status. retry_after_s: what Retry-After says when the raiser knows nothing better; None leaves the header out."""

    status: int
    retry_after_s: int | None = None


ERROR_TABLE: Final[Mapping[ErrorCode, ErrorRow]] = MappingProxyType(
    {
        ErrorCode.AMBIGUOUS_MODEL: ErrorRow(400),
        ErrorCode.CONTEXT_LENGTH_EXCEEDED: ErrorRow(400),
        ErrorCode.DIMENSIONS_NOT_SUPPORTED: ErrorRow(400),
        ErrorCode.EMBEDDINGS_NOT_SUPPORTED: ErrorRow(400),
        ErrorCode.TEMPLATE_RENDER_FAILED: ErrorRow(400),
        ErrorCode.TOOLS_NOT_SUPPORTED: ErrorRow(400),
        ErrorCode.UNSUPPORTED_PARAMETER: ErrorRow(400),
        ErrorCode.INVALID_API_KEY: ErrorRow(401),
        ErrorCode.HOST_NOT_ALLOWED: ErrorRow(403),
        ErrorCode.ORIGIN_NOT_ALLOWED: ErrorRow(403),
        ErrorCode.MODEL_NOT_FOUND: ErrorRow(404),
        ErrorCode.NOT_FOUND: ErrorRow(404),
        ErrorCode.METHOD_NOT_ALLOWED: ErrorRow(405),
        ErrorCode.REQUEST_TIMEOUT: ErrorRow(408),
        ErrorCode.BODY_TOO_LARGE: ErrorRow(413),
        ErrorCode.UNSUPPORTED_MEDIA_TYPE: ErrorRow(415),
        ErrorCode.ENGINE_CRASHED: ErrorRow(500),
        ErrorCode.ENGINE_UNRESPONSIVE: ErrorRow(500),
        ErrorCode.MODEL_LOAD_FAILED: ErrorRow(500),
        ErrorCode.BACKEND_UNAVAILABLE: ErrorRow(502),
        ErrorCode.INSUFFICIENT_RESOURCES: ErrorRow(503, retry_after_s=30),
        ErrorCode.MODEL_UNAVAILABLE: ErrorRow(503, retry_after_s=30),
        ErrorCode.SERVER_BUSY: ErrorRow(503, retry_after_s=30),
        ErrorCode.SERVER_DRAINING: ErrorRow(503, retry_after_s=30),
    }
)

_TYPE_OF_STATUS: Final[Mapping[int, str]] = MappingProxyType(
    {401: "authentication_error", 403: "forbidden", 404: "not_found_error"}
)
_MAX_MESSAGE_CHARS = 2_000


class Holder(msgspec.Struct, frozen=True):
    """The other process that holds the lock or the memory which a load needs."""

    pid: int
    model: str


class ErrorObject(msgspec.Struct, frozen=True, kw_only=True):
    """What stands under "error". `holder` is left out, not null, when no holder is known."""

    message: str
    type: str
    param: str | None
    code: str | None
    holder: Holder | msgspec.UnsetType = msgspec.UNSET


class ErrorEnvelope(msgspec.Struct, frozen=True):
    """The body of every answer that is not a success, and the event that ends a broken stream."""

    error: ErrorObject


class ApiError(Exception):
    """An answer other than success.

    status: HTTP status, 400 to 599. code: None where the documents give none.
    param: the field of the request that is at fault, as a path such as `messages[2].content`; None when it is not one field.
    retry_after_s: seconds that a client should wait; None when waiting does not help or nobody knows.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: ErrorCode | None = None,
        param: str | None = None,
        retry_after_s: int | None = None,
        holder: Holder | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.type = error_type(status)
        self.retry_after_s = retry_after_s
        self.holder = holder
        self._more_headers = dict(headers or {})

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the answer beside those of its body."""
        if self.retry_after_s is None:
            return dict(self._more_headers)

        return {**self._more_headers, "Retry-After": str(self.retry_after_s)}


def refusal(
    code: ErrorCode,
    message: str,
    *,
    param: str | None = None,
    retry_after_s: int | None = None,
    holder: Holder | None = None,
    headers: Mapping[str, str] | None = None,
) -> ApiError:
    """Return the error for a documented code. Status and the usual Retry-After come from the table."""
    row = ERROR_TABLE[code]

    return ApiError(
        row.status,
        message,
        code=code,
        param=param,
        retry_after_s=row.retry_after_s if retry_after_s is None else max(1, retry_after_s),
        holder=holder,
        headers=headers,
    )


def error_type(status: int) -> str:
    """Return the `type` that goes with a status."""
    if status >= 500:
        return "server_error"

    return _TYPE_OF_STATUS.get(status, "invalid_request_error")


def error_body(error: ApiError) -> bytes:
    """Return the JSON envelope. Never fails, whatever text an exception put into the message."""
    return msgspec.json.encode(
        ErrorEnvelope(
            ErrorObject(
                message=_printable(error.message),
                type=error.type,
                param=None if error.param is None else _printable(error.param),
                code=None if error.code is None else str(error.code),
                holder=msgspec.UNSET if error.holder is None else _printable_holder(error.holder),
            )
        )
    )


def _printable(text: str) -> str:
    if len(text) > _MAX_MESSAGE_CHARS:
        text = text[: _MAX_MESSAGE_CHARS - 1] + "…"

    # A lone surrogate (from a file name, say) cannot be written as UTF-8.
    return text.encode("utf-8", "replace").decode("utf-8")


def _printable_holder(holder: Holder) -> Holder:
    return Holder(holder.pid, _printable(holder.model))
