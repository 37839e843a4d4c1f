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
    """Any object is accepted; its fields are ignored."""


class DrainRequest(msgspec.Struct, frozen=True):
    """timeout_ms: how long to wait for the running generation before it is cancelled; None waits for its end. Other fields are ignored."""

    timeout_ms: Annotated[int | None, Meta(extra_json_schema={"minimum": 0})] = None


_UNLOAD = msgspec.json.Decoder(UnloadRequest)
_DRAIN = msgspec.json.Decoder(DrainRequest)


def decode_unload_request(body: bytes) -> UnloadRequest:
    """Return the request; an empty body is {}. Raises ApiError (400) when the body is not a JSON object."""
    return decode_body(body, _UNLOAD) if body else UnloadRequest()


def decode_drain_request(body: bytes) -> DrainRequest:
    """Return the request; an empty body is {}. Raises ApiError (400) when the body is not a JSON object or the bound is not one."""
    request = decode_body(body, _DRAIN) if body else DrainRequest()

    if request.timeout_ms is not None and request.timeout_ms < 0:
        raise invalid_request("'timeout_ms' must be at least 0.", "timeout_ms")

    return request


def drain_timeout_s(request: DrainRequest) -> float | None:
    """Return the bound of the wait in seconds, at most a day; None when there is none."""
    return None if request.timeout_ms is None else min(request.timeout_ms, MAX_DRAIN_WAIT_MS) / 1_000
