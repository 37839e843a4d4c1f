"""Values inside tool calls: types of XML parameters, Python literals, JSON that a client can read."""

import json
import re

import pytest

from prism.chat.tool_call_values import OfferedTools, ToolCall
from prism.chat.tool_calls import call_openings, parse_tool_calls
from prism.chat.tool_family import ToolFamily

F = ToolFamily
WEATHER: dict[str, object] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "wind": {"type": "boolean"},
        "factor": {"type": "number"},
        "near": {"type": ["object", "null"]},
        "tags": {"anyOf": [{"type": "array"}, {"type": "null"}]},
        "zip": {"type": ["string", "integer"]},
        "note": {},
    },
}
TOOLS: OfferedTools = {"get_weather": WEATHER, "add": None}


def parse(text: str, family: ToolFamily = F.UNKNOWN) -> tuple[ToolCall, ...]:
    return parse_tool_calls(text, TOOLS, family).calls


def plain(calls: tuple[ToolCall, ...]) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in calls]


def test_xml_values_keep_ampersands_and_angle_brackets() -> None:
    """Case 101."""
    code = 'if a < b && c > d:\n    s = "&lt;x&gt;"\n    <b>bold</b>'
    text = f"<tool_call>\n<function=get_weather>\n<parameter=city>\n{code}\n</parameter>\n</function>\n</tool_call>"
    assert plain(parse(text, F.QWEN3_CODER_XML)) == [("get_weather", {"city": code})]


@pytest.mark.parametrize(
    ("key", "raw", "value"),
    [
        ("city", "12", "12"),
        ("city", "null", "null"),
        ("city", "", ""),
        ("city", " padded ", " padded "),
        ("city", "\n\nlines\n\n", "\nlines\n"),
        ("days", "12", 12),
        ("days", " 12 ", 12),
        ("days", "12.5", "12.5"),
        ("days", "soon", "soon"),
        ("days", "true", "true"),
        ("wind", "true", True),
        ("wind", "False", False),
        ("wind", "1", "1"),
        ("factor", "1.5", 1.5),
        ("factor", "2", 2),
        ("near", '{"x": [1]}', {"x": [1]}),
        ("near", "null", None),
        ("near", "{oops", "{oops"),
        ("tags", "[1, 2]", [1, 2]),
        ("tags", "None", None),
        ("zip", "01234", "01234"),
        ("note", "12", "12"),
        ("unheard", "12", "12"),
    ],
)
def test_xml_values_get_the_type_of_the_schema(key: str, raw: str, value: object) -> None:
    text = f"<function=get_weather><parameter={key}>{raw}</parameter></function>"
    ((_, arguments),) = plain(parse(text, F.QWEN3_CODER_XML))
    assert arguments == {key: value}
    assert type(arguments[key]) is type(value)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("'it\\'s'", "it's"),
        ('"a\\nb\\t\\\\ \\d \\u00e9 \\x41 \\U0001F600"', "a\nb\t\\ \\d é A 😀"),
        ('"""say "hi" """', 'say "hi" '),
        ("'''a'b'''", "a'b"),
        ('""', ""),
        ('"(,)]=["', "(,)]=["),
        ("-12", -12),
        ("+.5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("True", True),
        ("false", False),
        ("None", None),
        ("[1, [2, 'x'], ()]", [1, [2, "x"], []]),
        ("(1, 2)", [1, 2]),
        ("{'a': {'b': [1]}, \"c\": None}", {"a": {"b": [1]}, "c": None}),
        ("{}", {}),
    ],
)
def test_python_literals_are_read(literal: str, value: object) -> None:
    ((_, arguments),) = plain(parse(f"[add(x={literal}, y=1)]", F.LLAMA4_PYTHONIC))
    assert arguments == {"x": value, "y": 1}


def test_arguments_are_compact_json_and_keep_their_letters() -> None:
    (call,) = parse('<tool_call>{"name": "add", "arguments": {"a": "é 日本", "b": [1, 2]}}</tool_call>')
    assert call.arguments == '{"a":"é 日本","b":[1,2]}'


def test_half_of_a_surrogate_pair_in_an_argument_can_be_sent() -> None:
    (call,) = parse('<tool_call>{"name": "add", "arguments": {"a": "\\ud83d"}}</tool_call>')
    assert call.arguments == '{"a":"\\ud83d"}'
    call.arguments.encode()


def test_ids_are_unique_and_of_one_form() -> None:
    """Case 105."""
    calls = parse('<tool_call>{"name":"add"}</tool_call>' * 50, F.HERMES)
    assert len({call.id for call in calls}) == 50
    assert all(re.fullmatch(r"call_[0-9a-f]{24}", call.id) for call in calls)


def test_openings_of_a_family_can_be_asked_for() -> None:
    assert call_openings(F.HERMES) == ("<tool_call>",)
    assert set(call_openings(F.UNKNOWN)) > set(call_openings(F.MISTRAL))
