"""The fields that chat and text completions share: which model, how to sample, when to stop, how to answer.

Base of `ChatRequest` and `CompletionRequest`. Types are checked while decoding; ranges later, by `prism.api.generation_numbers`. Pure.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from prism.api.errors import ApiError
from prism.api.limits import MAX_CACHE_KEY_CHARS, MAX_MODEL_CHARS, MAX_STOP_CHARS, MAX_STOP_STRINGS
from prism.api.refusals import invalid_request

CacheKey = Annotated[str, Meta(max_length=MAX_CACHE_KEY_CHARS)]
StopText = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_STOP_CHARS})]
CacheTtl = Literal["5m", "30m", "1h", "6h", "24h"]

NOT_BLANK: Final = r"\S"  # in the published schema
_SECONDS_OF_TTL: dict[CacheTtl, int] = {"5m": 300, "30m": 1_800, "1h": 3_600, "6h": 21_600, "24h": 86_400}


class StreamOptions(msgspec.Struct, frozen=True):
    """include_usage: end the stream with a chunk that carries the token counts."""

    include_usage: bool | None = None


# Ranges stand here for the published schema only: a number out of range is reported later than a wrong type, after the model was found.
class GenerationFields(msgspec.Struct, frozen=True, kw_only=True):
    """None always means: not given, use the default."""

    model: Annotated[
        str,
        Meta(
            max_length=MAX_MODEL_CHARS,
            description="Name, alias or id of a model.",
            extra_json_schema={"pattern": NOT_BLANK},
        ),
    ]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: Annotated[
        StopText | Annotated[list[StopText], Meta(extra_json_schema={"maxItems": MAX_STOP_STRINGS})] | None,
        Meta(description="Up to 4 strings; the answer ends before the first that occurs."),
    ] = None
    max_tokens: Annotated[int | None, Meta(extra_json_schema={"minimum": 1})] = None
    max_completion_tokens: Annotated[int | None, Meta(extra_json_schema={"minimum": 1})] = None
    temperature: Annotated[float | None, Meta(extra_json_schema={"minimum": 0, "maximum": 2})] = None
    top_p: Annotated[float | None, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": 1})] = None
    top_k: Annotated[int | None, Meta(extra_json_schema={"minimum": 1})] = None
    repetition_penalty: Annotated[float | None, Meta(extra_json_schema={"exclusiveMinimum": 0})] = None
    frequency_penalty: Annotated[float | None, Meta(extra_json_schema={"minimum": -2, "maximum": 2})] = None
    presence_penalty: Annotated[float | None, Meta(extra_json_schema={"minimum": -2, "maximum": 2})] = None
    seed: int | None = None
    n: Annotated[
        int | None, Meta(description="Ignored: there is always one choice.", extra_json_schema={"minimum": 1})
    ] = None
    conversation_id: CacheKey | None = None
    prompt_cache_key: CacheKey | None = None
    cache_ttl: CacheTtl | None = None


def check_model_name(request: GenerationFields) -> None:
    """Raise ApiError when the model's name is blank."""
    if not request.model.strip():
        raise no_model_name()


def no_model_name() -> ApiError:
    """Return the error for a blank `model`."""
    return invalid_request("'model' must not be empty.", "model")


def wants_stream(request: GenerationFields) -> bool:
    """Say whether the answer goes out as server-sent events."""
    return request.stream is True


def wants_usage_chunk(request: GenerationFields) -> bool:
    """Say whether a stream ends with a chunk of token counts. Without `stream` the option means nothing."""
    return wants_stream(request) and request.stream_options is not None and request.stream_options.include_usage is True


def cache_key(request: GenerationFields) -> str | None:
    """Return what names the conversation whose kept prefix may be continued; None leaves it to the longest common prefix."""
    return request.conversation_id or request.prompt_cache_key or None


def cache_ttl_s(request: GenerationFields) -> int | None:
    """Return how long a kept prefix may live, in seconds; None when the client does not say."""
    return None if request.cache_ttl is None else _SECONDS_OF_TTL[request.cache_ttl]
