"""Readers of calls that are written as JSON, between tags of any kind or bare. Used by `tool_calls.py`; nothing blocks."""

import re

from prism.chat.tool_call_values import (
    MOST_CALLS,
    CallBlock,
    OfferedTools,
    ToolCall,
    call_of_value,
    make_call,
    read_json,
    skip_white_space,
)

MOST_UNREADABLE = 32  # each costs a look at the whole text before it, for the line number in an error that nobody reads

_SEPARATORS = ";,"
_CLOSING_TAG_REACH = 4096
_HEAD_REACH = 512

_MISTRAL_HEAD = re.compile(r"\s*+([\w.:/-]{1,128}+)\s*+(?:\[CALL_ID\][\w-]{0,128}+\s*+)?(?:\[ARGS\]\s*+)?(?=\{)")
_HARMONY_HEAD = re.compile(r"([\w.-]{1,128}+)[^{}]{0,200}?<\|message\|>\s*+(?=\{)")

_DEEPSEEK_CALL = "<｜tool▁call▁begin｜>"
_DEEPSEEK_CALL_END = "<｜tool▁call▁end｜>"
_DEEPSEEK_CALLS_END = "<｜tool▁calls▁end｜>"
_DEEPSEEK_SEPARATOR = "<｜tool▁sep｜>"
_DEEPSEEK_FENCED = re.compile(r"[ \t]*+([^\s`{]{1,128}+)\s*+```(?:json)?\s*+(?=\{)")


def read_calls(text: str, position: int, offered: OfferedTools, *, needs_arguments: bool = False) -> CallBlock | None:
    """Read JSON objects and lists of objects, one after another, from `position` on. None if not even one value can be read."""
    parts: list[ToolCall | str] = []
    end = position
    start = skip_white_space(text, position)

    while len(parts) < MOST_CALLS and text.startswith(("{", "["), start):
        block = _read_value(text, start, offered, needs_arguments=needs_arguments)

        if block is None:
            return CallBlock(end, tuple(parts), is_cut=True) if parts else None

        parts.extend(block.parts)
        end = block.end

        if block.is_cut:
            return CallBlock(end, tuple(parts), is_cut=True)

        start = skip_white_space(text, end)

        if text.startswith(tuple(_SEPARATORS), start):
            start = skip_white_space(text, start + 1)

    return CallBlock(end, tuple(parts)) if parts else None


def read_tagged(text: str, position: int, offered: OfferedTools, opening: str, closing: str) -> CallBlock | None:
    """Read what stands between two tags; `position` is behind the first, the second may be missing."""
    block = read_calls(text, position, offered)
    return None if block is None else close_block(text, block, opening, closing)


def close_block(text: str, block: CallBlock, opening: str, closing: str) -> CallBlock:
    """The block with its closing tag, if that follows. Words in between are kept as text, surplus brackets are not."""
    end = skip_white_space(text, block.end)

    if text.startswith(closing, end):
        return CallBlock(end + len(closing), block.parts, block.is_cut)

    closing_start = text.find(closing, end, end + _CLOSING_TAG_REACH)

    if closing_start < 0 or text.find(opening, end, closing_start) >= 0:
        return block

    between = text[end:closing_start].strip(" \t\r\n}];,")
    parts = (*block.parts, text[end:closing_start].strip()) if between else block.parts
    return CallBlock(closing_start + len(closing), parts, block.is_cut)


def read_bare(text: str, offered: OfferedTools) -> CallBlock | None:
    """Read a reply that is nothing but JSON. At least one value must be a call, with its arguments, of an offered tool (D-03)."""
    block = read_calls(text, 0, offered, needs_arguments=True)

    if block is None or block.is_cut or not block.has_calls:
        return None

    is_whole = not text[block.end :].strip(" \t\r\n;")
    return block if is_whole else None


def read_mistral(text: str, position: int, offered: OfferedTools) -> CallBlock | None:
    """Read behind `[TOOL_CALLS]`: a list of objects, or a name, an id perhaps, and the arguments."""
    head = _MISTRAL_HEAD.match(text, position)

    if head is None:
        return read_calls(text, position, offered)

    return _read_arguments(text, position, head.end(), head.group(1), offered)


def read_harmony(text: str, position: int, offered: OfferedTools) -> CallBlock | None:
    """Read behind `to=functions.`: a name, the rest of the header, `<|message|>` and the arguments (gpt-oss)."""
    head = _HARMONY_HEAD.match(text, position)

    if head is None:
        return None

    block = _read_arguments(text, position, head.end(), head.group(1), offered)
    return None if block is None else close_block(text, block, "<|start|>", "<|call|>")


def read_deepseek_calls(text: str, position: int, offered: OfferedTools) -> CallBlock | None:
    """Read behind `<｜tool▁calls▁begin｜>`: calls up to `<｜tool▁calls▁end｜>`. The marks of an unreadable call stay with its text."""
    parts: list[ToolCall | str] = []
    end = position
    unreadable = 0
    start = skip_white_space(text, position)

    while len(parts) < MOST_CALLS and text.startswith(_DEEPSEEK_CALL, start):
        block = read_deepseek_call(text, start + len(_DEEPSEEK_CALL), offered)

        if block is None:
            unreadable += 1
            call_end = text.find(_DEEPSEEK_CALL_END, start)

            if call_end < 0 or unreadable > MOST_UNREADABLE:
                return CallBlock(end, tuple(parts), is_cut=True) if parts else None

            block = CallBlock(call_end + len(_DEEPSEEK_CALL_END), (text[start : call_end + len(_DEEPSEEK_CALL_END)],))

        parts.extend(block.parts)
        end = block.end
        start = skip_white_space(text, end)

    if not parts:
        return None

    return CallBlock(
        start + len(_DEEPSEEK_CALLS_END) if text.startswith(_DEEPSEEK_CALLS_END, start) else end, tuple(parts)
    )


def read_deepseek_call(text: str, position: int, offered: OfferedTools) -> CallBlock | None:
    """Read behind `<｜tool▁call▁begin｜>`: `name<sep>{...}`, or `function<sep>name` and the arguments in a code fence."""
    separator = text.find(_DEEPSEEK_SEPARATOR, position, position + _HEAD_REACH)

    if separator < 0:
        return None

    behind = separator + len(_DEEPSEEK_SEPARATOR)
    fenced = _DEEPSEEK_FENCED.match(text, behind)

    if fenced is None:
        name, arguments_start = text[position:separator].strip(), skip_white_space(text, behind)
    else:
        name, arguments_start = fenced.group(1), fenced.end()

    block = _read_arguments(text, position, arguments_start, name, offered)

    if block is None:
        return None

    end = skip_white_space(text, block.end)

    if fenced is not None and text.startswith("```", end):
        end = skip_white_space(text, end + 3)

    is_closed = text.startswith(_DEEPSEEK_CALL_END, end)
    return CallBlock(end + len(_DEEPSEEK_CALL_END) if is_closed else end, block.parts)


def _read_value(text: str, start: int, offered: OfferedTools, *, needs_arguments: bool) -> CallBlock | None:
    if text[start] == "[":
        return _read_list(text, start, offered, needs_arguments=needs_arguments)

    found = read_json(text, start)

    if found is None:
        return None

    value, end = found
    return CallBlock(end, (call_of_value(value, offered, needs_arguments=needs_arguments) or text[start:end],))


def _read_list(text: str, start: int, offered: OfferedTools, *, needs_arguments: bool) -> CallBlock | None:
    """Read a list element by element: each keeps its own text, and what precedes a cut is not lost with it."""
    parts: list[ToolCall | str] = []
    element = skip_white_space(text, start + 1)

    while not text.startswith("]", element):
        found = read_json(text, element) if len(parts) < MOST_CALLS else None

        if found is None:
            return CallBlock(element, tuple(parts), is_cut=True) if parts else None

        value, end = found
        parts.append(call_of_value(value, offered, needs_arguments=needs_arguments) or text[element:end])
        element = skip_white_space(text, end)

        if text.startswith(",", element):
            element = skip_white_space(text, element + 1)
        elif not text.startswith("]", element):
            return CallBlock(end, tuple(parts), is_cut=True)

    return CallBlock(element + 1, tuple(parts) or (text[start : element + 1],))


def _read_arguments(text: str, raw_start: int, start: int, name: str, offered: OfferedTools) -> CallBlock | None:
    """Read the object at `start` as the arguments of `name`."""
    found = read_json(text, start)

    if found is None:
        return None

    arguments, end = found
    return CallBlock(end, (make_call(name, arguments, offered) or text[raw_start:end],))
