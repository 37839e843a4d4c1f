"""Whether a chat template takes tools, how it wants them, and which way of calling them its model was taught.

Asked by `prompt.py` about the facts of a parsed template; pure. The word "tools" in a comment, in prose or in another name means nothing:
what counts is what the template's code reads.
"""

import json
from collections.abc import Mapping, Sequence
from enum import Enum, auto

from prism.chat.template_facts import TemplateFacts
from prism.chat.tool_family import ToolFamily


class ToolSlot(Enum):
    """Where a template looks for tools."""

    NOWHERE = auto()
    VARIABLE = auto()  # the variable `tools`
    MESSAGE = auto()  # the key `tools` of the system message, as JSON text


# In order: an earlier mark outranks a later one that stands in the same template.
_MARKS: tuple[tuple[ToolFamily, tuple[str, ...]], ...] = (
    (ToolFamily.DEEPSEEK, ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>")),
    (ToolFamily.MISTRAL, ("[TOOL_CALLS]",)),
    (ToolFamily.QWEN3_CODER_XML, ("<function=", "<parameter=")),
    (ToolFamily.PHI4_MINI, ("<|tool_call|>", "<|/tool|>")),
    (ToolFamily.HERMES, ("<tool_call>",)),
    (ToolFamily.LLAMA4_PYTHONIC, ("<|header_start|>", "<|python_start|>", "[func_name1(", "[func_name(")),
    (ToolFamily.LLAMA3_JSON, ("<|python_tag|>", "<|start_header_id|>")),
)


def tool_slot(facts: TemplateFacts | None) -> ToolSlot:
    """None stands for a model without a template."""
    if facts is None:
        return ToolSlot.NOWHERE

    if "tools" in facts.variables:
        return ToolSlot.VARIABLE

    return ToolSlot.MESSAGE if facts.reads_message_tools else ToolSlot.NOWHERE


def tool_family(facts: TemplateFacts | None, special_tokens: frozenset[str]) -> ToolFamily:
    """The way of calling that the template shows; where it shows none, the one that the tokenizer has tokens for."""
    written = facts.text if facts is not None else ""

    for family, marks in _MARKS:
        # XML parameters are told from a Llama's `<function=name>{json}` by having both.
        found = all if family is ToolFamily.QWEN3_CODER_XML else any

        if found(mark in written for mark in marks):
            return family

    for family, marks in _MARKS:
        if family is not ToolFamily.QWEN3_CODER_XML and any(mark in special_tokens for mark in marks):
            return family

    return ToolFamily.UNKNOWN


def with_message_tools(
    messages: Sequence[Mapping[str, object]], tools: Sequence[Mapping[str, object]]
) -> list[Mapping[str, object]]:
    """Put the tools into the system message, which is made when there is none. The JSON is the one that Phi-4-mini documents."""
    text = json.dumps([tool.get("function", tool) for tool in tools], ensure_ascii=False)
    place = next((index for index, message in enumerate(messages) if message.get("role") == "system"), None)

    if place is None:
        return [{"role": "system", "content": "You are a helpful assistant with some tools.", "tools": text}, *messages]

    return [{**message, "tools": text} if index == place else message for index, message in enumerate(messages)]


def missing_tools(tools: Sequence[Mapping[str, object]], prompt: str) -> list[str]:
    """Names of offered tools that the prompt does not tell the model about."""
    names = [name for tool in tools if isinstance(name := _function(tool).get("name"), str)]
    return [name for name in names if name not in prompt and json.dumps(name)[1:-1] not in prompt]


def _function(tool: Mapping[str, object]) -> Mapping[str, object]:
    function = tool.get("function")
    return function if isinstance(function, Mapping) else tool
