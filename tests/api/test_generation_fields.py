"""Streams, usage chunks and cache keys: what the fields mean."""

import json
from typing import Any

import pytest

from prism.api.chat_request import ChatRequest, decode_chat_request
from prism.api.errors import ApiError
from prism.api.generation_fields import cache_key, cache_ttl_s, wants_stream, wants_usage_chunk


def decoded(**fields: object) -> ChatRequest:
    return decode_chat_request(
        json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], **fields}).encode()
    )


@pytest.mark.parametrize(("stream", "expected"), [(None, False), (False, False), (True, True)])
def test_stream(stream: bool | None, expected: bool) -> None:
    assert wants_stream(decoded(stream=stream)) is expected


@pytest.mark.parametrize(
    ("stream", "options", "expected"),
    [
        (True, {"include_usage": True}, True),
        (True, {"include_usage": False}, False),
        (True, {"include_usage": None}, False),
        (True, {}, False),
        (True, {"include_obfuscation": True}, False),
        (True, None, False),
        (False, {"include_usage": True}, False),
    ],
)
def test_usage_chunk_only_when_asked(stream: bool, options: Any, expected: bool) -> None:
    assert wants_usage_chunk(decoded(stream=stream, stream_options=options)) is expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"prompt_cache_key": "k"}, "k"),
        ({"conversation_id": "c"}, "c"),
        ({"conversation_id": "c", "prompt_cache_key": "k"}, "c"),
        ({"conversation_id": "", "prompt_cache_key": "k"}, "k"),
    ],
)
def test_the_cache_key_is_used_when_there_is_no_conversation_id(fields: dict[str, str], expected: str | None) -> None:
    assert cache_key(decoded(**fields)) == expected


@pytest.mark.parametrize("field", ["conversation_id", "prompt_cache_key"])
def test_keys_have_at_most_256_characters(field: str) -> None:
    decoded(**{field: "é" * 256})

    with pytest.raises(ApiError) as caught:
        decoded(**{field: "é" * 257})

    assert caught.value.param == field
    assert "256 characters" in caught.value.message


@pytest.mark.parametrize(
    ("ttl", "seconds"), [("5m", 300), ("30m", 1_800), ("1h", 3_600), ("6h", 21_600), ("24h", 86_400), (None, None)]
)
def test_lifetimes(ttl: str | None, seconds: int | None) -> None:
    assert cache_ttl_s(decoded(cache_ttl=ttl)) == seconds


@pytest.mark.parametrize("ttl", ["2h", "5M", "", "300"])
def test_other_lifetimes_are_refused(ttl: str) -> None:
    with pytest.raises(ApiError) as caught:
        decoded(cache_ttl=ttl)

    assert caught.value.param == "cache_ttl"
