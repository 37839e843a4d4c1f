"""Find the tool calls in a finished answer. Used by the answer pipeline, in the front's event loop; nothing blocks.

Only tools that the request offered count: everything else is what the model wanted to say, and stays. A call that cannot be read stays as
text too, and takes no other call with it. The cost is linear in the text: each character is looked at a few times, whatever the text is,
and after 32 unreadable calls, or 1,000 readable ones, the rest is taken as text.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from prism.chat.tool_call_values import MOST_CALLS, CallBlock, OfferedTools, ToolCall
from prism.chat.tool_family import ToolFamily
from prism.chat.tool_formats_json import (
    MOST_UNREADABLE,
    read_bare,
    read_calls,
    read_deepseek_call,
    read_deepseek_calls,
    read_harmony,
    read_mistral,
    read_tagged,
)
from prism.chat.tool_formats_python import read_call_list, read_whole_list
from prism.chat.tool_formats_xml import FUNCTION, read_function, read_tool_call

_Reader: TypeAlias = Callable[[str, int, OfferedTools], CallBlock | None]


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """An answer with its calls taken out.

    content: the text before, between and after the calls, one line each; the unchanged answer if there are no calls.
    is_cut: a call that cannot be read follows the last one: the answer probably ended in the middle of it.
    """

    content: str
    calls: tuple[ToolCall, ...]
    is_cut: bool


def parse_tool_calls(text: str, offered: OfferedTools, family: ToolFamily) -> ParsedAnswer:
    """Take the calls of offered tools out of a finished answer, thinking already removed.

    offered: name of each tool to the JSON schema of its parameters, or None; the schema gives XML parameters their types.
    family: what the model's template speaks. Bare JSON is read for every family, when it is the whole answer.
    """
    return (
        _take_marked(text, offered, family)
        or _take_whole(text, offered, family)
        or ParsedAnswer(text, (), is_cut=False)
    )


def call_openings(family: ToolFamily) -> tuple[str, ...]:
    """The literal texts with which a call of this family may begin. Bare calls begin with `{` or `[` at the start of the answer."""
    return tuple(_READERS[family])


def _take_marked(text: str, offered: OfferedTools, family: ToolFamily) -> ParsedAnswer | None:
    """The answer without its calls between markup, or None if there are none."""
    openings, readers = _OPENINGS[family], _READERS[family]
    calls: list[ToolCall] = []
    texts: list[str] = []
    taken_to = position = 0
    unreadable = 0
    is_cut = False

    while (
        unreadable < MOST_UNREADABLE
        and len(calls) < MOST_CALLS
        and (opening := openings.search(text, position)) is not None
    ):
        block = readers[opening.group()](text, opening.end(), offered)

        if block is None or not block.has_calls:
            unreadable += 1
            is_cut = True
            position = opening.end() if block is None else block.end
            continue

        texts.append(text[taken_to : opening.start()])
        texts.extend(part for part in block.parts if isinstance(part, str))
        calls.extend(part for part in block.parts if isinstance(part, ToolCall))
        is_cut = block.is_cut
        taken_to = position = block.end

    texts.append(text[taken_to:])
    return ParsedAnswer(_join(texts), tuple(calls), is_cut) if calls else None


def _take_whole(text: str, offered: OfferedTools, family: ToolFamily) -> ParsedAnswer | None:
    """The calls of an answer that is nothing but calls without markup, or None."""
    block = read_bare(text, offered)

    if block is None and family in _PYTHONIC:
        block = read_whole_list(text, offered)

    if block is None:
        return None

    texts = [part for part in block.parts if isinstance(part, str)]
    return ParsedAnswer(_join(texts), tuple(part for part in block.parts if isinstance(part, ToolCall)), is_cut=False)


def _join(texts: list[str]) -> str:
    return "\n".join(stripped for text in texts if (stripped := text.strip()))


def _tagged(opening: str, closing: str) -> _Reader:
    return partial(read_tagged, opening=opening, closing=closing)


def _read_python_tag(text: str, position: int, offered: OfferedTools) -> CallBlock | None:
    return read_calls(text, position, offered) or read_call_list(text, position, offered)


def _read_python_block(text: str, position: int, offered: OfferedTools) -> CallBlock | None:
    block = _read_python_tag(text, position, offered)
    closing = "<|python_end|>"

    if block is None or not text.startswith(closing, block.end):
        return block

    return CallBlock(block.end + len(closing), block.parts, block.is_cut)


_TOOL_CALL: Mapping[str, _Reader] = {
    "<tool_call>": partial(read_tool_call, opening="<tool_call>", closing="</tool_call>"),
}
_PHI: Mapping[str, _Reader] = {
    "<|tool_call|>": _tagged("<|tool_call|>", "<|/tool_call|>"),
    "functools": read_calls,  # Phi-4-mini now and then: functools[{...}]
}
_MISTRAL: Mapping[str, _Reader] = {"[TOOL_CALLS]": read_mistral}
_FUNCTION: Mapping[str, _Reader] = {FUNCTION: read_function}
_LLAMA3: Mapping[str, _Reader] = {"<|python_tag|>": _read_python_tag, **_FUNCTION}
_LLAMA4: Mapping[str, _Reader] = {"<|python_start|>": _read_python_block, "<|python_tag|>": _read_python_tag}
_DEEPSEEK: Mapping[str, _Reader] = {
    "<｜tool▁calls▁begin｜>": read_deepseek_calls,
    "<｜tool▁call▁begin｜>": read_deepseek_call,
}
_QWEN3: Mapping[str, _Reader] = {
    **_TOOL_CALL,
    **_FUNCTION,
    # Seed-OSS: the same inside other tags.
    "<seed:tool_call>": partial(read_tool_call, opening="<seed:tool_call>", closing="</seed:tool_call>"),
}
# Conventions of models that have no family of their own here: Command A, gpt-oss.
_OTHERS: Mapping[str, _Reader] = {
    "<|START_ACTION|>": _tagged("<|START_ACTION|>", "<|END_ACTION|>"),
    "<|start|>assistant<|channel|>commentary to=functions.": read_harmony,
    "<|channel|>commentary to=functions.": read_harmony,
    "<|start|>assistant to=functions.": read_harmony,
}
_READERS: Mapping[ToolFamily, Mapping[str, _Reader]] = {
    ToolFamily.HERMES: _TOOL_CALL,
    ToolFamily.PHI4_MINI: _PHI,
    ToolFamily.MISTRAL: _MISTRAL,
    ToolFamily.LLAMA3_JSON: _LLAMA3,
    ToolFamily.LLAMA4_PYTHONIC: _LLAMA4,
    ToolFamily.QWEN3_CODER_XML: _QWEN3,
    ToolFamily.DEEPSEEK: _DEEPSEEK,
    ToolFamily.UNKNOWN: {**_QWEN3, **_PHI, **_MISTRAL, **_LLAMA3, **_LLAMA4, **_DEEPSEEK, **_OTHERS},
}
_OPENINGS = {family: re.compile("|".join(map(re.escape, readers))) for family, readers in _READERS.items()}
_PYTHONIC = frozenset({ToolFamily.LLAMA3_JSON, ToolFamily.LLAMA4_PYTHONIC, ToolFamily.UNKNOWN})
