"""Requests of the OpenAI API as the daemon gets them."""

import base64
import json
from typing import Any

import pytest

from prism.api.chat_request import decode_chat_request
from prism.api.completion_request import decode_completion_request
from prism.api.errors import ApiError
from prism.ollama.requests import bodies_to_try, chat_body, embed_body, prompt_body

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n and so on").decode()
HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "weather", "description": "d", "parameters": {"type": "object"}}}
OTHER = {"type": "function", "function": {"name": "clock"}}


def body_of(messages: list[Any] | None = None, **fields: Any) -> Any:
    request = {"model": "m", "messages": messages or HELLO, **fields}
    return chat_body(decode_chat_request(json.dumps(request).encode()), "m:latest")[0]


def test_the_smallest_request() -> None:
    assert body_of() == {
        "model": "m:latest",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": {"num_predict": 512, "temperature": 0.1, "top_p": 0.9},
    }


def test_numbers_and_stop_strings_have_the_daemons_names() -> None:
    options = body_of(
        max_completion_tokens=7,
        temperature=0,
        top_p=0.5,
        top_k=3,
        repetition_penalty=1.1,
        frequency_penalty=-1.5,
        presence_penalty=0.5,
        seed=-4,
        stop="END",
    )["options"]
    assert options == {
        "num_predict": 7,
        "temperature": 0.0,
        "top_p": 0.5,
        "top_k": 3,
        "repeat_penalty": 1.1,
        "frequency_penalty": -1.5,
        "presence_penalty": 0.5,
        "seed": -4,
        "stop": ["END"],
    }


def test_a_penalty_of_zero_asks_for_nothing() -> None:
    assert (
        not {"frequency_penalty", "presence_penalty"}
        & body_of(frequency_penalty=0, presence_penalty=0)["options"].keys()
    )


def test_a_seed_of_zero_is_a_seed() -> None:
    assert body_of(seed=0)["options"]["seed"] == 0


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (None, ["weather", "clock"]),
        ("auto", ["weather", "clock"]),
        ("required", ["weather", "clock"]),
        ({"type": "function", "function": {"name": "clock"}}, ["clock"]),
    ],
)
def test_tools_are_those_that_the_choice_leaves(choice: object, names: list[str]) -> None:
    tools = body_of(tools=[TOOL, OTHER], tool_choice=choice)["tools"]
    assert [tool["function"]["name"] for tool in tools] == names
    assert [tool["type"] for tool in tools] == ["function"] * len(names)


def test_the_choice_none_drops_them() -> None:
    assert "tools" not in body_of(tools=[TOOL], tool_choice="none")


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("wanted", "native"),
    [
        ({"type": "json_object"}, "json"),
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}, SCHEMA),
        ({"type": "text"}, None),
        (None, None),
    ],
)
def test_the_format_of_the_answer(wanted: object, native: object) -> None:
    assert body_of(response_format=wanted).get("format") == native


@pytest.mark.parametrize(
    ("fields", "think"),
    [
        ({}, None),
        ({"reasoning_effort": "none"}, False),
        ({"reasoning_effort": "minimal"}, "low"),
        ({"reasoning_effort": "low"}, "low"),
        ({"reasoning_effort": "medium"}, "medium"),
        ({"reasoning_effort": "high"}, "high"),
        ({"reasoning_effort": "xhigh"}, "high"),
        ({"reasoning_effort": "max"}, "high"),
        ({"reasoning": {"enabled": False}, "reasoning_effort": "high"}, False),
        ({"reasoning": {"effort": "low"}}, "low"),
    ],
)
def test_effort_becomes_thinking(fields: dict[str, Any], think: object) -> None:
    assert body_of(**fields).get("think") == think


def test_after_a_refusal_less_is_asked_of_thinking() -> None:
    tried = bodies_to_try({"model": "m", "think": "high"})
    assert tried == [{"model": "m", "think": "high"}, {"model": "m", "think": True}, {"model": "m"}]
    assert bodies_to_try({"model": "m", "think": False}) == [{"model": "m", "think": False}]
    assert bodies_to_try({"model": "m"}) == [{"model": "m"}]


def test_the_history_of_calls() -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, "b"], "name": "me"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}},
                {"type": "function", "function": {"name": "clock", "arguments": ""}},
                {"id": "3", "type": "function", "function": {"name": "odd", "arguments": "not JSON"}},
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "12"},
        {"role": "tool", "tool_call_id": "9", "name": "named", "content": "13"},
        {"role": "tool", "tool_call_id": "9", "content": "14"},
    ]
    assert body_of(messages)["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a\nb"},
        {
            "role": "assistant",
            "content": "",
            "thinking": "hm",
            "tool_calls": [
                {"id": "1", "function": {"name": "weather", "arguments": {"city": "Oslo"}}},
                {"function": {"name": "clock", "arguments": {}}},
                {"id": "3", "function": {"name": "odd", "arguments": {"value": "not JSON"}}},
            ],
        },
        {"role": "tool", "content": "12", "tool_name": "weather", "tool_call_id": "1"},
        {"role": "tool", "content": "13", "tool_name": "named", "tool_call_id": "9"},
        {"role": "tool", "content": "14", "tool_call_id": "9"},
    ]


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, "detail": "low"}}


def test_pictures_go_out_as_bare_base64_with_their_message() -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}, image(f"data:image/png;base64,{PNG}")]},
        {"role": "user", "content": [image(f"data:image/PNG;base64,{PNG}"), image(f"data:image/png;base64,{PNG}")]},
    ]
    assert body_of(messages)["messages"] == [
        {"role": "user", "content": "What is it?", "images": [PNG]},
        {"role": "user", "content": "", "images": [PNG, PNG]},
    ]


def test_only_parts_that_are_neither_text_nor_pictures_are_dropped() -> None:
    parts = [image(f"data:image/png;base64,{PNG}"), {"type": "input_audio"}, "text"]
    request = {"model": "m", "messages": [{"role": "user", "content": parts}]}
    assert chat_body(decode_chat_request(json.dumps(request).encode()), "m")[1] == 1


def test_a_picture_elsewhere_is_never_fetched() -> None:
    with pytest.raises(ApiError, match="nothing is fetched") as caught:
        body_of([{"role": "user", "content": ["a", image("https://example.com/a.png")]}])

    assert (caught.value.status, caught.value.param) == (400, "messages[0].content[1].image_url")


def test_a_prompt_is_one_user_message() -> None:
    request = decode_completion_request(b'{"model": "m", "prompt": "Once", "max_tokens": 5, "stop": ["a", "b"]}')
    body = prompt_body(request, "m", "Once")
    assert body["messages"] == [{"role": "user", "content": "Once"}]
    assert body["options"] == {"num_predict": 5, "temperature": 0.1, "top_p": 0.9, "stop": ["a", "b"]}


def test_texts_to_embed_shall_not_be_cut() -> None:
    assert embed_body("m", ("a", "b")) == {"model": "m", "input": ["a", "b"], "truncate": False}
