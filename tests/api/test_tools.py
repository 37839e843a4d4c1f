"""Tools and tool_choice: the four shapes, and nothing else."""

import json
from typing import Any

import pytest

from prism.api.chat_request import ChatRequest, decode_chat_request, offered_tool_dicts
from prism.api.errors import ApiError
from prism.api.limits import MAX_JSON_DEPTH, MAX_TOOLS
from prism.api.tools import must_call

NAMED = {"type": "function", "function": {"name": "b"}}


def a_tool(name: str, **function: object) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **function}}


TWO = [a_tool("a"), a_tool("b")]


def decoded(**fields: object) -> ChatRequest:
    return decode_chat_request(
        json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], **fields}).encode()
    )


def refused(**fields: object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        decoded(**fields)

    assert (caught.value.status, caught.value.code) == (400, None)

    return caught.value


@pytest.mark.parametrize("tools", [None, []])
def test_null_and_empty_are_no_tools(tools: object) -> None:
    assert offered_tool_dicts(decoded(tools=tools)) == []


@pytest.mark.parametrize(
    ("choice", "offered", "is_forced"),
    [
        (None, ["a", "b"], False),
        ("auto", ["a", "b"], False),
        ("required", ["a", "b"], True),
        ("none", [], False),
        (NAMED, ["b"], True),
    ],
)
def test_the_four_shapes_of_tool_choice(choice: object, offered: list[str], is_forced: bool) -> None:
    request = decoded(tools=TWO, tool_choice=choice)

    assert [tool["function"] for tool in offered_tool_dicts(request)] == [{"name": name} for name in offered]
    assert must_call(request.tool_choice) is is_forced


@pytest.mark.parametrize(
    "choice",
    [42, True, "sometimes", "", "AUTO", [], ["auto"], {}, {"type": "function"}, {"type": "tool", "function": {"name": "a"}},
     {"type": "function", "function": {}}, {"type": "function", "function": {"name": ""}}, {"type": "function", "function": {"name": 5}},
     {"type": "function", "function": "a"}, {"name": "a"}],
)  # fmt: skip
@pytest.mark.parametrize("tools", [TWO, None])
def test_any_other_tool_choice_is_refused_with_the_shapes(choice: object, tools: object) -> None:
    error = refused(tools=tools, tool_choice=choice)

    assert error.param == "tool_choice"
    assert all(shape in error.message for shape in ('"none"', '"auto"', '"required"', '{"type": "function"'))


def test_a_choice_that_is_not_among_the_tools_lists_what_is() -> None:
    error = refused(tools=TWO, tool_choice={"type": "function", "function": {"name": "c"}})

    assert error.param == "tool_choice"
    assert "'c'" in error.message
    assert "Available: a, b." in error.message


def test_a_named_choice_without_tools_is_refused() -> None:
    assert "There are no tools" in refused(tool_choice=NAMED).message


def test_required_without_tools_is_refused_because_it_cannot_be_honoured() -> None:
    assert refused(tool_choice="required").param == "tool_choice"
    assert refused(tools=[], tool_choice="required").param == "tool_choice"


@pytest.mark.parametrize("choice", ["none", "auto"])
def test_defaults_of_clients_without_tools_are_accepted(choice: str) -> None:
    assert offered_tool_dicts(decoded(tool_choice=choice)) == []


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        (5, "tools[1]"),
        ("b", "tools[1]"),
        ({}, "tools[1].function"),
        ({"function": {"name": "b"}}, "tools[1].type"),
        ({"type": "retrieval", "function": {"name": "b"}}, "tools[1].type"),
        ({"type": "function"}, "tools[1].function"),
        ({"type": "function", "function": {}}, "tools[1].function.name"),
        (a_tool(""), "tools[1].function.name"),
        (a_tool("b", description=5), "tools[1].function.description"),
        (a_tool("b", parameters=[]), "tools[1].function.parameters"),
        (a_tool("b", parameters="{}"), "tools[1].function.parameters"),
        (a_tool("b", parameters=True), "tools[1].function.parameters"),
        (a_tool("a"), "tools[1].function.name"),
    ],
)
def test_a_bad_tool_is_named(tool: object, param: str) -> None:
    assert refused(tools=[a_tool("a"), tool]).param == param


@pytest.mark.parametrize("tools", [{}, "a", 5, True])
def test_tools_must_be_a_list(tools: object) -> None:
    assert refused(tools=tools).param == "tools"


def test_the_most_tools_are_accepted_and_one_more_is_not() -> None:
    tools = [a_tool(f"t{number}") for number in range(MAX_TOOLS + 1)]

    assert len(decoded(tools=tools[:-1]).tools or []) == MAX_TOOLS
    assert refused(tools=tools).param == "tools"


def test_parameters_are_bounded_in_depth() -> None:
    decoded(tools=[a_tool("a", parameters=nested(MAX_JSON_DEPTH))])

    assert "64 levels" in refused(tools=[a_tool("a", parameters=nested(MAX_JSON_DEPTH + 1))]).message


def test_parameters_of_endless_depth_are_refused() -> None:
    head = b'{"model":"m","messages":[{"role":"user"}],"tools":[{"type":"function","function":{"name":"a","parameters":'

    for depth in (900, 200_000):
        with pytest.raises(ApiError) as caught:
            decode_chat_request(head + b'{"a":' * depth + b"1" + b"}" * depth + b"}}]}")

        assert caught.value.status == 400


def test_a_number_out_of_range_in_parameters_is_named() -> None:
    tools = b'[{"type":"function","function":{"name":"a","parameters":{"maximum":1e999}}}]'
    body = b'{"model":"m","messages":[{"role":"user"}],"tools":' + tools + b"}"

    with pytest.raises(ApiError) as caught:
        decode_chat_request(body)

    assert caught.value.param == "tools[0].function.parameters"
    assert "out of range" in caught.value.message


def test_a_tool_keeps_its_schema_and_the_order_of_its_keys() -> None:
    parameters = {
        "type": "object",
        "properties": {"z": {"type": "string"}, "a": {"type": "integer"}},
        "required": ["z"],
    }
    (plain,) = offered_tool_dicts(decoded(tools=[a_tool("a", parameters=parameters, description="d", strict=True)]))

    assert plain == {"type": "function", "function": {"name": "a", "description": "d", "parameters": parameters}}
    assert json.dumps(plain["function"]["parameters"]) == json.dumps(parameters)  # type: ignore[index]


def test_null_parameters_are_no_parameters() -> None:
    assert offered_tool_dicts(decoded(tools=[a_tool("a", parameters=None)])) == [a_tool("a")]


def nested(depth: int) -> dict[str, object]:
    value: dict[str, object] = {}

    for _ in range(depth - 1):
        value = {"properties": value}

    return value
