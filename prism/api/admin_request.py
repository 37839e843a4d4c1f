"""The bodies of POST /v1/unload and POST /v1/drain: nothing, or a JSON object. Pure.

A handler decodes before it acts, so a rejected body unloads nothing and schedules no exit.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from prism.api.json_body import decode_body
from prism.api.limits import MAX_DRAIN_WAIT_MS
from prism.api.refusals import invalid_request


class UnloadRequest(msgspec.Struct, frozen=True):
    """timeout_ms: how long to wait for the running generation before it is ended; None waits for its end.

    Any object is accepted: other fields are ignored, and so is a bound that is none.
    """

    timeout_ms: Annotated[int | None, Meta(extra_json_schema={"minimum": 0})] = None


class _AnyObject(msgspec.Struct, frozen=True):
    """An object, whatever is in it."""


class DrainRequest(msgspec.Struct, frozen=True):
    """timeout_ms: how long to wait for the running generation before it is cancelled; None waits for its end. Other fields are ignored."""

    timeout_ms: Annotated[int | None, Meta(extra_json_schema={"minimum": 0})] = None


_ANY = msgspec.json.Decoder(_AnyObject)
_UNLOAD = msgspec.json.Decoder(UnloadRequest)
_DRAIN = msgspec.json.Decoder(DrainRequest)


def decode_unload_request(body: bytes) -> UnloadRequest:
    """Return the request; an empty body is {}. Raises ApiError (400) when the body is not a JSON object."""
    if not body:
        return UnloadRequest()

    decode_body(body, _ANY)

    try:
        request = _UNLOAD.decode(body)
    except msgspec.ValidationError:
        return UnloadRequest()

    is_bound = request.timeout_ms is not None and request.timeout_ms >= 0
    return request if is_bound else UnloadRequest()


def decode_drain_request(body: bytes) -> DrainRequest:
    """Return the request; an empty body is {}. Raises ApiError (400) when the body is not a JSON object or the bound is not one."""
    request = decode_body(body, _DRAIN) if body else DrainRequest()

    if request.timeout_ms is not None and request.timeout_ms < 0:
        raise invalid_request("'timeout_ms' must be at least 0.", "timeout_ms")

    return request


def wait_bound_s(request: DrainRequest | UnloadRequest) -> float | None:
    """Return the bound of the wait in seconds, at most a day; None when there is none."""
    return None if request.timeout_ms is None else min(request.timeout_ms, MAX_DRAIN_WAIT_MS) / 1_000
