"""Whether a template takes tools: decided by its code, not by the look of its text (D-02, B-54)."""

import pytest

from prism.chat.template import CompiledTemplate
from prism.chat.tool_family import ToolFamily
from prism.chat.tool_support import ToolSlot, missing_tools, tool_family, tool_slot, with_message_tools

TOOL = {"type": "function", "function": {"name": "f-1", "parameters": {}}}


@pytest.mark.parametrize(
    ("source", "slot"),
    [
        ("{{ tools }}", ToolSlot.VARIABLE),
        ("{% if tools %}x{% endif %}", ToolSlot.VARIABLE),
        ("{% if (n % 2 == 0) and tools %}x{% endif %}", ToolSlot.VARIABLE),
        ("{{ {'a': {'b': tools}} }}", ToolSlot.VARIABLE),
        ("{% if not tools is defined %}{% set tools = none %}{% endif %}{{ tools }}", ToolSlot.VARIABLE),
        ("{% if custom_tools is defined %}{% set tools = custom_tools %}{% endif %}{{ tools }}", ToolSlot.VARIABLE),
        ("{% macro m() %}{{ tools }}{% endmacro %}{{ m() }}", ToolSlot.VARIABLE),
        ("{% for message in messages %}{{ message['tools'] }}{% endfor %}", ToolSlot.MESSAGE),
        ("{% for m in messages %}{{ m.tools }}{% endfor %}", ToolSlot.MESSAGE),
        ("{% for m in messages %}{{ m.get('tools') }}{% endfor %}", ToolSlot.MESSAGE),
        ("{{ messages[0]['tools'] }}", ToolSlot.MESSAGE),
        ("{# tools #}no", ToolSlot.NOWHERE),
        ("use tools wisely {{ messages }}", ToolSlot.NOWHERE),
        ("{% raw %}{{ tools }}{% endraw %}", ToolSlot.NOWHERE),
        ("{{ 'tools' }}", ToolSlot.NOWHERE),
        ("{{ tool_registry }}{{ my_tools }}", ToolSlot.NOWHERE),
        ("{{ config.tools }}", ToolSlot.NOWHERE),
        ("{% for tools in messages %}{{ tools }}{% endfor %}", ToolSlot.NOWHERE),
        ("{% set tools = [] %}{{ tools }}", ToolSlot.NOWHERE),
        ("{% if 'tools' in messages[0] %}x{% endif %}", ToolSlot.NOWHERE),
    ],
)
def test_slot_is_where_the_code_looks(source: str, slot: ToolSlot) -> None:
    assert tool_slot(CompiledTemplate(source).facts) is slot


def test_model_without_template_takes_no_tools() -> None:
    assert tool_slot(None) is ToolSlot.NOWHERE


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("<tool_call>", ToolFamily.HERMES),
        ("<tool_call>\n<function=name>\n<parameter=key>", ToolFamily.QWEN3_CODER_XML),
        ("<|tool|><|/tool|>", ToolFamily.PHI4_MINI),
        ("<|tool_call|>", ToolFamily.PHI4_MINI),
        ("[TOOL_CALLS]", ToolFamily.MISTRAL),
        ("<|start_header_id|> <function=name>{json}</function>", ToolFamily.LLAMA3_JSON),
        ("<|python_tag|>", ToolFamily.LLAMA3_JSON),
        ("<|start_header_id|> [func_name1(a=b)]", ToolFamily.LLAMA4_PYTHONIC),
        ("<｜tool▁call▁begin｜>", ToolFamily.DEEPSEEK),
        ("nothing", ToolFamily.UNKNOWN),
    ],
)
def test_family_is_read_from_what_the_template_writes(text: str, family: ToolFamily) -> None:
    assert tool_family(CompiledTemplate("{{ x }}" + text).facts, frozenset()) is family
    assert tool_family(CompiledTemplate("{{ x }}{{ " + repr(text) + " }}").facts, frozenset()) is family


def test_family_in_a_comment_does_not_count() -> None:
    assert tool_family(CompiledTemplate("{# <tool_call> #}").facts, frozenset()) is ToolFamily.UNKNOWN


def test_tokens_tell_the_family_where_the_template_does_not() -> None:
    assert tool_family(CompiledTemplate("x").facts, frozenset({"[TOOL_CALLS]"})) is ToolFamily.MISTRAL
    assert tool_family(None, frozenset({"<tool_call>"})) is ToolFamily.HERMES


def test_message_tools_leave_other_messages_alone() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "system", "content": "s"}]
    changed = with_message_tools(messages, [TOOL])

    assert changed[0] == messages[0]
    assert changed[1] == {"role": "system", "content": "s", "tools": '[{"name": "f-1", "parameters": {}}]'}
    assert "tools" not in messages[1]


def test_missing_tools_are_those_whose_name_is_not_written() -> None:
    other = {"type": "function", "function": {"name": 'g"é'}}

    assert missing_tools([TOOL, other], "f-1") == ['g"é']
    assert missing_tools([TOOL, other], 'f-1 g\\"\\u00e9') == []
