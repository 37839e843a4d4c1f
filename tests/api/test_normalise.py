"""Messages as templates take them: plain dicts, one text each."""

import copy
import json
import time
from typing import Any

import msgspec
import pytest

from prism.api.chat_request import ChatRequest, decode_chat_request
from prism.api.limits import MAX_ARGUMENTS_CHARS
from prism.api.normalise import image_parts, normalise_messages


def decoded(*messages: object) -> ChatRequest:
    return decode_chat_request(json.dumps({"model": "m", "messages": messages}).encode())


def text(content: str) -> dict[str, str]:
    return {"type": "text", "text": content}


def image(url: str, detail: str | None = None) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, "detail": detail}}


def arguments_of(arguments: object) -> object:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages, _ = normalise_messages(decoded({"role": "assistant", "content": None, "tool_calls": [call]}))
    (plain,) = messages[0]["tool_calls"]  # type: ignore[misc]

    return plain["function"]["arguments"]  # type: ignore[has-type]


@pytest.mark.parametrize(
    ("content", "expected", "dropped"),
    [
        ("hello", "hello", 0),
        ("", "", 0),
        (None, "", 0),
        ([], "", 0),
        ([text("one")], "one", 0),
        ([text("one"), text("two")], "one\ntwo", 0),
        ([text(""), text("two")], "\ntwo", 0),
        (["one", text("two")], "one\ntwo", 0),
        ([text("one"), image("data:x"), text("two")], "one\ntwo", 1),
        ([image("data:x"), {"type": "input_audio", "input_audio": {"data": ""}}], "", 2),
        ([{"type": "other", "text": "not said"}], "", 1),
        ("  spaces \n stay ", "  spaces \n stay ", 0),
    ],
)
def test_content_becomes_one_text(content: object, expected: str, dropped: int) -> None:
    messages, count = normalise_messages(decoded({"role": "user", "content": content}))

    assert messages == [{"role": "user", "content": expected}]
    assert count == dropped


def test_missing_content_is_an_empty_text() -> None:
    assert normalise_messages(decoded({"role": "user"})) == ([{"role": "user", "content": ""}], 0)


def test_dropped_parts_are_counted_over_all_messages() -> None:
    message = {"role": "user", "content": [image("data:x"), text("a")]}

    assert normalise_messages(decoded(message, message))[1] == 2


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool"])
def test_roles_are_kept(role: str) -> None:
    assert normalise_messages(decoded({"role": role, "content": "x"}))[0] == [{"role": role, "content": "x"}]


def test_a_call_and_its_result_keep_what_templates_read() -> None:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "look_up", "arguments": '{"city": "Łódź", "days": 2}'},
    }
    messages, _ = normalise_messages(
        decoded(
            {"role": "user", "name": "ann", "content": "weather?"},
            {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm"},
            {"role": "tool", "tool_call_id": "call_1", "name": "look_up", "content": "rain"},
        )
    )

    decoded_call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "look_up", "arguments": {"city": "Łódź", "days": 2}},
    }
    assert messages == [
        {"role": "user", "content": "weather?", "name": "ann"},
        {"role": "assistant", "content": "", "tool_calls": [decoded_call], "reasoning_content": "hm"},
        {"role": "tool", "content": "rain", "name": "look_up", "tool_call_id": "call_1"},
    ]


def test_a_result_without_a_name_gets_that_of_its_call() -> None:
    """OpenAI's clients send none, and templates such as Kimi K2's show it."""
    calls = [{"id": f"call_{name}", "function": {"name": name}} for name in ("clock", "weather")]
    messages, _ = normalise_messages(
        decoded(
            {"role": "tool", "tool_call_id": "call_clock", "content": "too early"},
            {"role": "assistant", "tool_calls": [*calls, {"function": {"name": "without_id"}}]},
            {"role": "tool", "tool_call_id": "call_weather", "content": "rain"},
            {"role": "tool", "tool_call_id": "call_clock", "name": "its own", "content": "noon"},
            {"role": "tool", "tool_call_id": "unknown", "content": "?"},
            {"role": "tool", "content": "no id"},
            {"role": "assistant", "tool_calls": [{"id": "call_clock", "function": {"name": "again"}}]},
            {"role": "tool", "tool_call_id": "call_clock", "content": "one"},
        )
    )

    names = [message.get("name") for message in messages if message["role"] == "tool"]
    assert names == [None, "weather", "its own", None, None, "again"]


def test_fields_of_other_roles_are_left_out() -> None:
    message = {
        "role": "user",
        "content": "x",
        "tool_call_id": "c",
        "tool_calls": [{"function": {"name": "f"}}],
        "reasoning_content": "r",
    }

    assert normalise_messages(decoded(message))[0] == [{"role": "user", "content": "x"}]


def test_no_tool_calls_is_no_key() -> None:
    assert normalise_messages(decoded({"role": "assistant", "content": "x", "tool_calls": []}))[0] == [
        {"role": "assistant", "content": "x"}
    ]


def test_a_call_without_an_id_has_none() -> None:
    (message,), _ = normalise_messages(decoded({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}))

    assert message["tool_calls"] == [{"type": "function", "function": {"name": "f", "arguments": {}}}]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": [1, null]}', {"a": [1, None]}),
        ("[1, 2]", [1, 2]),
        ("", {}),
        ("  \n", {}),
        (None, {}),
        ("null", {}),
        ("{broken", "{broken"),
        ("5", "5"),
        ('"text"', '"text"'),
        ('{"a": NaN}', '{"a": NaN}'),
        (r'{"a": "\ud800"}', r'{"a": "\ud800"}'),
        (r'{"a": "x\u0000y"}', r'{"a": "x\u0000y"}'),
        (r'{"a": "C:\\u0000"}', {"a": r"C:\u0000"}),
        ('{"a":' * 65 + "1" + "}" * 65, '{"a":' * 65 + "1" + "}" * 65),
        ("[" * 5_000, "[" * 5_000),
    ],
)
def test_arguments_are_decoded_where_they_can_be(arguments: object, expected: object) -> None:
    assert arguments_of(arguments) == expected


def test_arguments_past_the_bound_stay_text() -> None:
    large = json.dumps({"a": "x" * MAX_ARGUMENTS_CHARS})

    assert arguments_of(large) == large


def test_many_arguments_cost_no_more_than_one() -> None:
    call = {"function": {"name": "f", "arguments": "{" + ",".join(f'"{key}":[]' for key in range(2_000)) + "}"}}
    request = decoded(*[{"role": "assistant", "tool_calls": [call] * 4}] * 100)
    begun = time.process_time()
    messages, _ = normalise_messages(request)

    assert time.process_time() - begun < 0.5
    kinds = [type(call["function"]["arguments"]) for message in messages for call in message["tool_calls"]]  # type: ignore[attr-defined]
    assert kinds[0] is dict
    assert kinds[-1] is str


def test_the_request_is_not_changed() -> None:
    request = decoded(
        {
            "role": "assistant",
            "content": [text("a")],
            "tool_calls": [{"function": {"name": "f", "arguments": '{"a":1}'}}],
        }
    )
    before = copy.deepcopy(msgspec.to_builtins(request))

    messages, _ = normalise_messages(request)
    messages[0]["content"] = "changed"
    messages[0]["tool_calls"][0]["function"]["arguments"]["a"] = 2  # type: ignore[index]

    assert msgspec.to_builtins(request) == before
    assert arguments_of('{"a":1}') == {"a": 1}


def test_images_are_listed_with_their_path() -> None:
    request = decoded(
        {"role": "user", "content": "no image"},
        {
            "role": "user",
            "content": [text("look"), image("data:image/png;base64,AA", "low"), image("https://x.example/y.png")],
        },
    )

    assert [
        (part.field, part.message_index, part.part_index, part.image.url, part.image.detail)
        for part in image_parts(request)
    ] == [
        ("messages[1].content[1].image_url", 1, 1, "data:image/png;base64,AA", "low"),
        ("messages[1].content[2].image_url", 1, 2, "https://x.example/y.png", None),
    ]


def test_a_model_that_sees_gets_parts_where_images_are() -> None:
    body = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "plain"},
            {"role": "user", "content": [text("one"), "two", image("data:x"), {"type": "file"}, text("three")]},
            {"role": "user", "content": [text("four"), text("five"), {"type": "input_audio"}]},
        ],
    }
    messages, dropped = normalise_messages(decode_chat_request(json.dumps(body).encode()), keeps_images=True)
    assert [message["content"] for message in messages] == [
        "plain",
        [{"type": "text", "text": "one\ntwo"}, {"type": "image"}, {"type": "text", "text": "three"}],
        "four\nfive",
    ]
    assert dropped == 2
