"""From the errors of the parts below to the errors that clients see. One table; a test walks the trees and finds it complete."""

import logging
import math

from prism.api.errors import ApiError, ErrorCode, Holder, refusal
from prism.api.refusals import ambiguous_model, internal_error, invalid_request, model_not_found, template_render_failed
from prism.catalog import AmbiguousModel, CatalogError, ModelNotFound
from prism.chat.template_errors import TemplateRenderFailed
from supervisor import errors as supervision

logger = logging.getLogger(__name__)

_CODES: dict[type[supervision.SupervisorError], ErrorCode | None] = {
    supervision.ServerBusy: ErrorCode.SERVER_BUSY,
    supervision.InsufficientResources: ErrorCode.INSUFFICIENT_RESOURCES,
    supervision.ModelUnavailable: ErrorCode.MODEL_UNAVAILABLE,
    supervision.ModelUnloaded: ErrorCode.MODEL_UNAVAILABLE,
    supervision.ServerDraining: ErrorCode.SERVER_DRAINING,
    supervision.ServerFailing: ErrorCode.SERVER_DRAINING,
    supervision.ContextLengthExceeded: ErrorCode.CONTEXT_LENGTH_EXCEEDED,
    supervision.InvalidForModel: None,
    supervision.ImageRefused: None,
    supervision.GuidanceRefused: None,
    supervision.GuidanceUnsupported: ErrorCode.UNSUPPORTED_PARAMETER,
    supervision.PromptRefused: None,
    supervision.ModelLoadFailed: ErrorCode.MODEL_LOAD_FAILED,
    supervision.WorkerDied: ErrorCode.ENGINE_CRASHED,
    supervision.WorkerOutOfMemory: ErrorCode.INSUFFICIENT_RESOURCES,
    supervision.WorkerUnresponsive: ErrorCode.ENGINE_UNRESPONSIVE,
    supervision.EngineFailed: ErrorCode.ENGINE_CRASHED,
    supervision.EngineOutOfMemory: ErrorCode.INSUFFICIENT_RESOURCES,
}
# Errors of a draining server end the connection: there is no point in keeping it for a next request.
_CLOSING = {ErrorCode.SERVER_DRAINING}


def to_api_error(error: Exception) -> ApiError:
    """Return what a client is told. An error that nobody foresaw becomes a plain 500, and its story goes to the log."""
    match error:
        case ApiError():
            return error
        case supervision.SupervisorError():
            return _of_supervisor(error)
        case CatalogError():
            return _of_catalog(error)
        case TemplateRenderFailed():
            return template_render_failed(error.model, error.cause)
        case _:
            logger.error("a request failed in a way that nobody foresaw", exc_info=error)
            return internal_error()


def _of_supervisor(error: supervision.SupervisorError) -> ApiError:
    code = _CODES[type(error)]

    if code is None:
        return invalid_request(str(error), error.field if isinstance(error, supervision.ImageRefused) else None)

    return refusal(
        code,
        str(error),
        retry_after_s=math.ceil(error.retry_after_s) if isinstance(error, supervision.ModelUnavailable) else None,
        holder=_holder(error.holder) if isinstance(error, supervision.InsufficientResources) else None,
        headers={"Connection": "close"} if code in _CLOSING else None,
    )


def _holder(holder: supervision.Holder | None) -> Holder | None:
    # A process that only the kernel knows of has no model that anybody could name.
    return None if holder is None else Holder(holder.pid, holder.model or "")


def _of_catalog(error: CatalogError) -> ApiError:
    match error:
        case AmbiguousModel(name=name, names=names):
            return ambiguous_model(name, names)
        case ModelNotFound():
            return model_not_found(str(error))
        case _:
            return invalid_request(str(error), "model")
