"""No output of a model, however odd, makes the tool parser raise, lose text or take long."""

import itertools
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism.chat.tool_call_values import OfferedTools
from prism.chat.tool_calls import call_openings, parse_tool_calls
from prism.chat.tool_family import ToolFamily

TOOLS: OfferedTools = {"f": {"type": "object", "properties": {"a": {"type": "integer"}}}, "g": None}
GOOD_CALLS = [
    '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>',
    '<|tool_call|>[{"name": "f"}, {"name": "g"}]<|/tool_call|>',
    "[TOOL_CALLS]f[ARGS]{}",
    '<function=f>{"a": 1}</function>',
    "<tool_call><function=f><parameter=a>1</parameter></function></tool_call>",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "<|python_start|>[f(a=1), g(x='y')]<|python_end|>",
]
FRAGMENTS = [
    *call_openings(ToolFamily.UNKNOWN), *GOOD_CALLS, "</tool_call>", "<|/tool_call|>", "[ARGS]", "[CALL_ID]", "</function>",
    "<parameter=a>", "</parameter>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "```json\n", "```", "<|message|>", "<|call|>",
    '{"name": "f", "arguments": ', '{"a": 1}', "}", "{", "[", "]", "(", ")", '"', "'", "\\", ",", ";", ":", "=", "f", "g(", "a=", "1",
    "null", "NaN", " ", "\n", "word", "é",
]  # fmt: skip
TEXT = st.lists(st.sampled_from(FRAGMENTS), max_size=16).map("".join)
FAMILIES = st.sampled_from(list(ToolFamily))


@given(text=TEXT, family=FAMILIES)
@settings(max_examples=400, deadline=None)
def test_any_text_is_read_without_an_error(text: str, family: ToolFamily) -> None:
    answer = parse_tool_calls(text, TOOLS, family)
    assert all(call.name in TOOLS for call in answer.calls)
    assert all(isinstance(json.loads(call.arguments), dict) for call in answer.calls)

    if not answer.calls:
        assert answer.content == text


@given(text=TEXT, family=FAMILIES)
@settings(deadline=None)
def test_no_word_is_invented(text: str, family: ToolFamily) -> None:
    remaining = iter(text)
    content = parse_tool_calls(text, TOOLS, family).content
    # The content is what remains of the text, in order; only the line breaks that join its parts may be new.
    assert all(character in remaining for character in content if character != "\n")


@given(
    before=st.text(alphabet="ab .\n", max_size=20),
    good=st.sampled_from(GOOD_CALLS),
    after=st.text("ab .\n", max_size=20),
)
@settings(deadline=None)
def test_words_around_calls_survive(before: str, good: str, after: str) -> None:
    answer = parse_tool_calls(before + good + after, TOOLS, ToolFamily.UNKNOWN)
    assert answer.calls
    assert answer.content == "\n".join(part for part in (before.strip(), after.strip()) if part)


@pytest.mark.parametrize("family", list(ToolFamily))
def test_deep_nesting_is_text(family: ToolFamily) -> None:
    openings = ("", *call_openings(family))
    starts = ("", '{"name": "f", "arguments": ', "f(a=", "f[ARGS]", "f><parameter=a>")
    bombs = ("[", '{"a":', "(", "[f(x=", "{'a':", '[{"name":', "-", '"""')

    for opening, start, bomb in itertools.product(openings, starts, bombs):
        text = opening + start + bomb * 5_000
        answer = parse_tool_calls(text, TOOLS, family)
        assert (answer.content, answer.calls) == (text, ())


def test_deep_nesting_that_is_complete_is_a_call_or_text() -> None:
    for depth in (10, 500, 900, 990, 2_000, 100_000):
        text = '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * depth + "]" * depth + "}}</tool_call>"
        answer = parse_tool_calls(text, TOOLS, ToolFamily.HERMES)
        assert answer.content == ("" if answer.calls else text)


def test_call_after_a_recursion_bomb_is_read() -> None:
    bomb = '<tool_call>{"name": "f", "arguments": ' + "[" * 10_000
    answer = parse_tool_calls(bomb + GOOD_CALLS[0], TOOLS, ToolFamily.HERMES)
    assert [call.name for call in answer.calls] == ["f"]
    assert answer.content == bomb


UNITS = [
    "<tool_call>", "<tool_call>{", '<tool_call>{"', '<tool_call>{"a":"', "<tool_call>[1,", '<tool_call>["",',
    '<tool_call>"', '<tool_call>{"name":"f","arguments":{}}', '<tool_call>{"name":"f","arguments":{}}</tool_call>',
    '<tool_call>{"name":"x","arguments":{}}</tool_call>', "<tool_call>\n", '"<tool_call>[1,","', "[TOOL_CALLS]",
    "[TOOL_CALLS]f[ARGS]{", "<|python_tag|>", "<|python_tag|>f(a='", '<|python_tag|>f(a="', "<|python_tag|>f(a=1,",
    "<function=f>", "<function=f><parameter=a>", "<parameter=a></parameter>",
    "<function=f><parameter=a>1</parameter>", "<function=f>{", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>oh<｜tool▁call▁end｜>",
    "<|channel|>commentary to=functions.f", "functools[", "<", "[", "{", "\\", "\n", "'", '"', "a", "1,",
    '{"name":"f"},', "f(a=1),",
]  # fmt: skip
PREFIXES = [
    "",
    "<tool_call>",
    "<tool_call>[",
    "<tool_call><function=f>",
    "<function=f>" * 40,
    "<｜tool▁calls▁begin｜>",
    "[",
    "[f(a=[",
]


def seconds(text: str) -> float:
    begin = time.process_time()
    parse_tool_calls(text, TOOLS, ToolFamily.UNKNOWN)
    return time.process_time() - begin


@pytest.mark.parametrize("prefix", PREFIXES)
def test_cost_grows_linearly(prefix: str) -> None:
    for unit in UNITS:
        count = 24_000 // len(unit)
        short = min(seconds(prefix + unit * count) for _ in range(3))
        long = min(seconds(prefix + unit * (count * 16)) for _ in range(2))
        assert long < 40 * short + 0.03, unit
