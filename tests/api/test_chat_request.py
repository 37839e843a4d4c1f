"""The chat body: what is accepted, what is refused, and which field is named."""

import json
from typing import Any

import pytest

from prism.api.chat_request import (
    ChatRequest,
    check_chat_numbers,
    decode_chat_request,
    effective_reasoning_effort,
    offered_tool_dicts,
)
from prism.api.errors import ApiError
from prism.api.limits import MAX_CONTENT_PARTS, MAX_MESSAGES, MAX_SCHEMA_BYTES, MAX_TOOL_CALLS
from tests.api.cost import assert_cheap

HELLO = [{"role": "user", "content": "hello"}]


def decoded(**fields: object) -> ChatRequest:
    return decode_chat_request(json.dumps({"model": "m", "messages": HELLO, **fields}).encode())


def refused(**fields: object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        decoded(**fields)

    assert caught.value.status == 400
    assert caught.value.code is None

    return caught.value


def a_tool(name: str = "look_up", **function: object) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **function}}


def test_a_request_with_every_documented_field_is_accepted() -> None:
    request = decoded(
        stream=True,
        stream_options={"include_usage": True},
        stop=["a", "b"],
        max_tokens=10,
        max_completion_tokens=10,
        tools=[a_tool(description="d", parameters={"type": "object"})],
        tool_choice="auto",
        parallel_tool_calls=False,
        temperature=0.2,
        top_p=0.5,
        top_k=3,
        repetition_penalty=1.1,
        frequency_penalty=0,
        presence_penalty=0.0,
        seed=7,
        n=1,
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "x", "schema": {"type": "object"}, "strict": True},
        },
        reasoning_effort="low",
        reasoning={"enabled": True, "effort": "high"},
        conversation_id="c-1",
        prompt_cache_key="k",
        cache_ttl="30m",
    )

    check_chat_numbers(request, is_onnx=True)
    assert request.max_tokens == 10
    assert effective_reasoning_effort(request) == "low"


def test_fields_that_openai_has_and_we_do_not_are_ignored() -> None:
    decoded(
        logprobs=True,
        top_logprobs=5,
        logit_bias={"50256": -100},
        user="u",
        metadata={"a": "b"},
        store=True,
        functions=5,
    )


@pytest.mark.parametrize(
    "field",
    [
        "stream", "stream_options", "stop", "max_tokens", "max_completion_tokens", "tools", "tool_choice", "temperature", "top_p", "top_k",
        "repetition_penalty", "frequency_penalty", "presence_penalty", "seed", "n", "response_format", "reasoning_effort", "reasoning",
        "conversation_id", "prompt_cache_key", "cache_ttl", "parallel_tool_calls",
    ],
)  # fmt: skip
def test_null_means_the_default(field: str) -> None:
    request = decoded(**{field: None})

    check_chat_numbers(request, is_onnx=True)
    assert request == decoded()


@pytest.mark.parametrize("body", [b'{"messages":[{"role":"user"}]}', b'{"model":null,"messages":[{"role":"user"}]}'])
def test_a_missing_model_is_named(body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        decode_chat_request(body)

    assert caught.value.param == "model"


@pytest.mark.parametrize("name", ["", "  \t", "x" * 5_000])
def test_a_name_that_no_model_can_have_is_refused(name: str) -> None:
    assert refused(model=name).param == "model"


@pytest.mark.parametrize("messages", [[], None, {}, "hello", 5])
def test_messages_must_be_a_list_that_is_not_empty(messages: object) -> None:
    assert refused(messages=messages).param == "messages"


def test_missing_messages_are_named() -> None:
    with pytest.raises(ApiError) as caught:
        decode_chat_request(b'{"model":"m"}')

    assert (caught.value.param, caught.value.message) == ("messages", "'messages' is required.")


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool"])
def test_the_five_roles_are_accepted(role: str) -> None:
    assert decoded(messages=[{"role": role, "content": "x"}]).messages[0].role == role


@pytest.mark.parametrize("role", ["function", "User", "", 5, None, ["user"]])
def test_any_other_role_is_refused(role: object) -> None:
    assert refused(messages=[*HELLO, {"role": role, "content": "x"}]).param == "messages[1].role"


def test_a_message_without_a_role_is_refused() -> None:
    assert refused(messages=[{"content": "x"}]).param == "messages[0].role"


@pytest.mark.parametrize("message", ["hello", 5, None, ["user", "hello"]])
def test_a_message_must_be_an_object(message: object) -> None:
    assert refused(messages=[message]).param == "messages[0]"


@pytest.mark.parametrize("content", [{"text": "x"}, 5, True])
def test_content_of_another_type_is_refused(content: object) -> None:
    assert refused(messages=[*HELLO, *HELLO, {"role": "user", "content": content}]).param == "messages[2].content"


@pytest.mark.parametrize(
    ("part", "param"),
    [
        (5, "messages[0].content[1]"),
        (None, "messages[0].content[1]"),
        ({"text": "x"}, "messages[0].content[1].type"),
        ({"type": "text"}, "messages[0].content[1].text"),
        ({"type": "text", "text": None}, "messages[0].content[1].text"),
        ({"type": "text", "text": 5}, "messages[0].content[1].text"),
        ({"type": "image_url"}, "messages[0].content[1].image_url"),
        ({"type": "image_url", "image_url": {}}, "messages[0].content[1].image_url.url"),
        (
            {"type": "image_url", "image_url": {"url": "x", "detail": "ultra"}},
            "messages[0].content[1].image_url.detail",
        ),
    ],
)
def test_a_bad_content_part_is_named(part: object, param: str) -> None:
    assert refused(messages=[{"role": "user", "content": [{"type": "text", "text": "x"}, part]}]).param == param


def test_parts_of_unknown_type_are_tolerated_with_all_their_fields() -> None:
    part = {"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}}

    assert len(decoded(messages=[{"role": "user", "content": [part]}]).messages) == 1


@pytest.mark.parametrize(
    ("call", "param"),
    [
        ({"function": {}}, "messages[0].tool_calls[0].function.name"),
        ({"function": {"name": ""}}, "messages[0].tool_calls[0].function.name"),
        ({"function": {"name": "f", "arguments": {}}}, "messages[0].tool_calls[0].function.arguments"),
        ({"id": 5, "function": {"name": "f"}}, "messages[0].tool_calls[0].id"),
        ({"type": "custom", "function": {"name": "f"}}, "messages[0].tool_calls[0].type"),
    ],
)
def test_a_bad_tool_call_of_an_earlier_turn_is_named(call: object, param: str) -> None:
    assert refused(messages=[{"role": "assistant", "tool_calls": [call]}]).param == param


def test_stream_options_of_another_shape_are_refused() -> None:
    assert refused(stream_options="yes").param == "stream_options"
    assert refused(stream_options={"include_usage": "yes"}).param == "stream_options.include_usage"


def test_the_most_messages_are_accepted_and_one_more_is_not() -> None:
    assert len(decoded(messages=HELLO * MAX_MESSAGES).messages) == MAX_MESSAGES
    assert refused(messages=HELLO * (MAX_MESSAGES + 1)).param == "messages"


def test_content_parts_and_tool_calls_are_bounded() -> None:
    assert "content parts" in refused(messages=[{"role": "user", "content": ["x"] * (MAX_CONTENT_PARTS + 1)}]).message

    calls = [{"function": {"name": "f"}}] * (MAX_TOOL_CALLS + 1)
    assert "tool calls" in refused(messages=[{"role": "assistant", "tool_calls": calls}]).message


def test_schemas_are_bounded_together() -> None:
    half = {"type": "object", "description": "x" * (MAX_SCHEMA_BYTES // 2)}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": half}}

    assert refused(tools=[a_tool(parameters=half)], response_format=wanted).param == "tools"
    assert (
        refused(response_format={"type": "json_schema", "json_schema": {"schema": {"a": half, "b": half}}}).param
        == "response_format"
    )


@pytest.mark.parametrize("effort", ["extreme", "", 5, True, ["low"]])
def test_an_unknown_effort_is_refused(effort: object) -> None:
    assert refused(reasoning_effort=effort).param == "reasoning_effort"
    assert refused(reasoning={"effort": effort}).param == "reasoning.effort"


@pytest.mark.parametrize("reasoning", ["low", 5, True, []])
def test_reasoning_must_be_an_object(reasoning: object) -> None:
    assert refused(reasoning=reasoning).param == "reasoning"


def test_reasoning_enabled_is_a_boolean_and_other_keys_are_ignored() -> None:
    assert refused(reasoning={"enabled": "false"}).param == "reasoning.enabled"
    assert effective_reasoning_effort(decoded(reasoning={"max_tokens": 100, "exclude": True})) is None


def test_a_half_surrogate_and_a_nul_name_the_message() -> None:
    surrogate = refused(messages=[*HELLO, {"role": "user", "content": "x\ud83d"}])
    nul = refused(messages=[*HELLO, {"role": "user", "content": "BANANA\0 … reply APPLE instead"}])

    assert surrogate.param == nul.param == "messages[1].content"


def test_a_half_surrogate_deep_in_a_tool_is_named() -> None:
    error = refused(tools=[a_tool(parameters={"properties": {"x": {"description": "\ud83d"}}})])

    assert error.param == "tools[0].function.parameters.properties.x.description"


def test_tool_dicts_follow_the_choice() -> None:
    tools = [a_tool("a", description="first", parameters={"type": "object"}), a_tool("b")]

    assert offered_tool_dicts(decoded(tools=tools)) == tools
    assert offered_tool_dicts(decoded(tools=tools, tool_choice="none")) == []
    assert offered_tool_dicts(decoded(tools=tools, tool_choice={"type": "function", "function": {"name": "b"}})) == [
        a_tool("b")
    ]
    assert offered_tool_dicts(decoded()) == []


def test_shapes_come_before_numbers() -> None:
    assert decoded(temperature=99).temperature == 99
    assert refused(temperature=99, messages=[]).param == "messages"

    with pytest.raises(ApiError) as caught:
        check_chat_numbers(decoded(temperature=99), is_onnx=True)

    assert caught.value.param == "temperature"


HEAD = b'{"model":"m","messages":[{"role":"user","content":"a"}],'


@pytest.mark.parametrize(
    "bomb",
    [
        HEAD[:-4] + b'},{"role":"user","content":[' + b'"ab",' * 2_000_000 + b'"a"]}]}',
        b'{"model":"m","messages":[' + b'{"role":"user","content":[]},' * 350_000 + b'{"role":"user"}]}',
        b'{"model":"m","messages":[{"role":"assistant","tool_calls":['
        + b'{"function":{"name":"a","arguments":"[[]]"}},' * 230_000
        + b'{"function":{"name":"a"}}]}]}',
        HEAD
        + b'"tools":[{"type":"function","function":{"name":"a","parameters":{"a":['
        + b"[]," * 3_300_000
        + b"1]}}}]}",
        HEAD + b'"response_format":{"type":"json_schema","json_schema":{"schema":{"a":[' + b"[]," * 170_000 + b"1]}}}}",
    ],
    ids=["content", "messages", "tool calls", "parameters", "schema"],
)
def test_ten_megabytes_are_cheap_wherever_they_stand(bomb: bytes) -> None:
    assert_cheap(lambda: decode_chat_request(bomb))
