"""Bodies that are right in every respect and use every field, for others to damage."""

from collections.abc import Mapping
from typing import Any

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"
UNLOAD = "/v1/unload"
DRAIN = "/v1/drain"
MODEL = "fuzzed"

_TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
_CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
_SAMPLING = {
    "max_tokens": 4,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 5,
    "repetition_penalty": 1.1,
    "frequency_penalty": 0,
    "presence_penalty": 0.0,
    "seed": 7,
    "n": 1,
    "stop": ["zzz", "yyy"],
}

_SMALL_CHAT: Mapping[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}
_WHOLE_CHAT: Mapping[str, Any] = {
    "model": MODEL,
    "messages": [
        {"role": "system", "content": "be brief"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "what is it?"},
                "more",
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,", "detail": "low"}},
            ],
            "name": "someone",
        },
        {"role": "assistant", "content": None, "tool_calls": [_CALL], "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": "c1", "content": "cold 😀"},
        {"role": "developer", "content": "and kind"},
    ],
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_completion_tokens": 4,
    "tools": [_TOOL],
    "tool_choice": {"type": "function", "function": {"name": "weather"}},
    "parallel_tool_calls": False,
    "response_format": {
        "type": "json_schema",
        "json_schema": {
            "name": "n",
            "strict": True,
            "schema": {"type": "object", "properties": {"a": {"enum": ["x", 1]}}, "required": ["a"]},
        },
    },
    "reasoning_effort": "low",
    "reasoning": {"enabled": True, "effort": "high"},
    "conversation_id": "c-1",
    "prompt_cache_key": "k",
    "cache_ttl": "30m",
    "user": "u",
    "logit_bias": {"50256": -100},
    **_SAMPLING,
}
_SMALL_COMPLETION: Mapping[str, Any] = {"model": MODEL, "prompt": "Once", "max_tokens": 3, "stream": True}
_WHOLE_COMPLETION: Mapping[str, Any] = {
    "model": MODEL,
    "prompt": ["Once", "upon 日本"],
    "echo": False,
    "suffix": "",
    "best_of": 1,
    "stream_options": {"include_usage": False},
    **_SAMPLING,
}
_EMBEDDINGS: Mapping[str, Any] = {"model": MODEL, "input": ["a", "b"], "encoding_format": "base64"}

# How often each is damaged follows from how often it stands here.
BODIES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    (CHAT, _SMALL_CHAT),
    (CHAT, _WHOLE_CHAT),
    (CHAT, _WHOLE_CHAT),
    (CHAT, _WHOLE_CHAT),
    (COMPLETIONS, _SMALL_COMPLETION),
    (COMPLETIONS, _WHOLE_COMPLETION),
    (EMBEDDINGS, _EMBEDDINGS),
    (UNLOAD, {"reason": "tests"}),
    (DRAIN, {"timeout_ms": 5_000}),
)
