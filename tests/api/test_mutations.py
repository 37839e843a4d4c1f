"""Whatever a body becomes when it is damaged, decoding it works or raises an ApiError 400 that says something. Never anything else."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism.api.admin_request import decode_drain_request, decode_unload_request
from prism.api.chat_request import (
    ChatRequest,
    check_chat_numbers,
    decode_chat_request,
    effective_reasoning_effort,
    offered_tool_dicts,
)
from prism.api.completion_request import CompletionRequest, decode_completion_request, prompts_of
from prism.api.embeddings_request import decode_embeddings_request
from prism.api.errors import ApiError, error_body
from prism.api.generation_numbers import check_numbers, sampling_of, stop_strings
from prism.api.normalise import image_parts, normalise_messages
from prism.api.response_format import answer_schema

CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "be brief"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "data:", "detail": "low"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "😀"},
    ],
    "stream": True,
    "stream_options": {"include_usage": True},
    "stop": ["x"],
    "max_tokens": 5,
    "temperature": 0.5,
    "top_p": 0.5,
    "seed": 3,
    "n": 1,
    "tools": [
        {
            "type": "function",
            "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}},
        }
    ],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
    "reasoning": {"enabled": True, "effort": "low"},
    "cache_ttl": "5m",
}
COMPLETION: dict[str, Any] = {
    "model": "m",
    "prompt": ["a", "b"],
    "echo": False,
    "suffix": "",
    "best_of": 1,
    "stop": "x",
    "top_k": 4,
}
EMBEDDINGS: dict[str, Any] = {"model": "m", "input": ["a", "b"], "encoding_format": "base64"}

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.sampled_from(["\0", "\ud83d", "auto", "none", "text", "user", 10**5_00, [], {}]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def use_chat(body: bytes) -> None:
    request: ChatRequest = decode_chat_request(body)
    normalise_messages(request)
    image_parts(request)
    offered_tool_dicts(request)
    answer_schema(request.response_format)
    effective_reasoning_effort(request)
    check_chat_numbers(request, is_onnx=True)
    sampling_of(request)
    assert all(stop_strings(request))


def use_completion(body: bytes) -> None:
    request: CompletionRequest = decode_completion_request(body)
    assert all(prompts_of(request))
    check_numbers(request, is_onnx=False)
    sampling_of(request)


USES: dict[str, tuple[Callable[[bytes], object], dict[str, Any]]] = {
    "chat": (use_chat, CHAT),
    "completion": (use_completion, COMPLETION),
    "embeddings": (decode_embeddings_request, EMBEDDINGS),
    "drain": (decode_drain_request, {"timeout_ms": 5}),
    "unload": (decode_unload_request, {}),
}
EACH_BODY = pytest.mark.parametrize("name", list(USES))


def decodes_or_refuses(use: Callable[[bytes], object], body: bytes) -> None:
    try:
        use(body)
    except ApiError as error:
        written = json.loads(error_body(error))["error"]
        assert (error.status, written["type"]) == (400, "invalid_request_error")  # noqa: PT017
        assert len(written["message"]) > 5


@EACH_BODY
def test_the_undamaged_body_decodes(name: str) -> None:
    use, base = USES[name]
    use(json.dumps(base).encode())


def paths(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()

    return [path, *(found for step, child in children for found in paths(child, (*path, step)))]


def replaced(value: Any, path: tuple[str | int, ...], new: object, *, is_removed: bool) -> Any:
    if not path:
        return new

    step, *rest = path
    changed = dict(value) if isinstance(value, dict) else list(value)

    if is_removed and not rest:
        del changed[step]  # type: ignore[arg-type]
    else:
        changed[step] = replaced(value[step], tuple(rest), new, is_removed=is_removed)  # type: ignore[index]

    return changed


@EACH_BODY
@given(st.data())
def test_any_value_in_any_place(name: str, data: st.DataObject) -> None:
    use, base = USES[name]
    path = data.draw(st.sampled_from(paths(base)))
    changed = replaced(base, path, data.draw(JSON_VALUES), is_removed=data.draw(st.booleans()))

    decodes_or_refuses(use, json.dumps(changed, ensure_ascii=data.draw(st.booleans())).encode("utf-8", "surrogatepass"))


@EACH_BODY
@settings(max_examples=200)
@given(st.data())
def test_any_bytes_in_any_place(name: str, data: st.DataObject) -> None:
    use, base = USES[name]
    body = json.dumps(base).encode()
    begin = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(begin, min(len(body), begin + 20)))

    pieces = st.sampled_from(
        [b"\\u0000", b"\\ud83d", b"\\ude00", b"\\", b'"', b"[", b"{", b"]", b"}", b",", b":", b"\0", b"NaN", b"1e999"]
    )
    decodes_or_refuses(use, body[:begin] + data.draw(pieces | st.binary(max_size=8)) + body[end:])


@EACH_BODY
@given(body=st.binary(max_size=60))
def test_any_bytes_at_all(name: str, body: bytes) -> None:
    decodes_or_refuses(USES[name][0], body)
