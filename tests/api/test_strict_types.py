"""Every scalar field of every body refuses every JSON type but its own, and says which field it was."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from prism.api.admin_request import decode_drain_request
from prism.api.chat_request import decode_chat_request
from prism.api.completion_request import decode_completion_request
from prism.api.embeddings_request import decode_embeddings_request
from prism.api.errors import ApiError, error_body

Decode = Callable[[bytes], object]

BASES: dict[str, tuple[Decode, dict[str, Any]]] = {
    "chat": (decode_chat_request, {"model": "m", "messages": [{"role": "user", "content": "hello"}]}),
    "completion": (decode_completion_request, {"model": "m", "prompt": "hello"}),
    "embeddings": (decode_embeddings_request, {"model": "m", "input": "hello"}),
    "drain": (decode_drain_request, {}),
}

SAMPLES = {
    "string": '"7"',
    "word": '"true"',
    "integer": "7",
    "fraction": "3.9",
    "boolean": "true",
    "object": "{}",
    "list": "[]",
}
STRING = {"string", "word"}
INTEGER = {"integer"}
NUMBER = {"integer", "fraction"}
BOOLEAN = {"boolean"}

GENERATION = {
    "model": STRING,
    "stream": BOOLEAN,
    "max_tokens": INTEGER,
    "max_completion_tokens": INTEGER,
    "temperature": NUMBER,
    "top_p": NUMBER,
    "top_k": INTEGER,
    "repetition_penalty": NUMBER,
    "frequency_penalty": NUMBER,
    "presence_penalty": NUMBER,
    "seed": INTEGER,
    "n": INTEGER,
    "conversation_id": STRING,
    "prompt_cache_key": STRING,
    "cache_ttl": set[str](),
    "stream_options": {"object"},
    "stop": {*STRING, "list"},
}
FIELDS = {
    "chat": {
        **GENERATION,
        "parallel_tool_calls": BOOLEAN,
        "reasoning_effort": set[str](),
        "reasoning": {"object"},
        "response_format": set[str](),
        "tool_choice": set[str](),
        "tools": {"list"},
    },
    "completion": {**GENERATION, "prompt": STRING, "echo": set[str](), "suffix": set[str](), "best_of": set[str]()},
    "embeddings": {"model": STRING, "input": STRING, "encoding_format": set[str](), "dimensions": set[str]()},
    "drain": {"timeout_ms": INTEGER},
}
CASES = [
    (body, field, sample, sample in allowed)
    for body, fields in FIELDS.items()
    for field, allowed in fields.items()
    for sample in SAMPLES
]


@pytest.mark.parametrize(("body", "field", "sample", "is_allowed"), CASES)
def test_strict_types(body: str, field: str, sample: str, is_allowed: bool) -> None:
    decode, base = BASES[body]
    raw = raw_body(base, field, SAMPLES[sample])

    if is_allowed:
        decode(raw)
        return

    with pytest.raises(ApiError) as caught:
        decode(raw)

    assert caught.value.status == 400
    assert caught.value.param is not None
    assert caught.value.param.split(".")[0].split("[")[0] == field
    assert json.loads(error_body(caught.value))["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize(
    "field", ["temperature", "top_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "max_tokens"]
)
def test_numbers_that_are_not_finite_are_refused(field: str, literal: str) -> None:
    decode, base = BASES["chat"]

    with pytest.raises(ApiError) as caught:
        decode(raw_body(base, field, literal))

    assert caught.value.status == 400
    assert caught.value.param == (field if "e" in literal else None) or "not valid JSON" in caught.value.message


def raw_body(base: dict[str, Any], field: str, literal: str) -> bytes:
    others = {name: value for name, value in base.items() if name != field}
    members = [f"{json.dumps(name)}:{json.dumps(value)}" for name, value in others.items()]

    return f"{{{','.join([*members, f'{json.dumps(field)}:{literal}'])}}}".encode()
