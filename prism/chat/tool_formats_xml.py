"""Reader of `<function=name>`: Qwen 3 Coder and Seed-OSS with a tag per parameter, Llama 3.1 with one JSON object. Nothing blocks.

The markup only looks like XML: values are written as they are, so `&`, `<` and `&lt;` in them mean themselves.
"""

from collections.abc import Iterable, Mapping

from prism.chat.tool_call_values import (
    MOST_CALLS,
    CallBlock,
    JsonSchema,
    OfferedTools,
    ToolCall,
    make_call,
    read_json,
    skip_white_space,
)
from prism.chat.tool_formats_json import close_block, read_calls

FUNCTION = "<function="
_FUNCTION_END = "</function>"
_PARAMETER = "<parameter="
_PARAMETER_END = "</parameter>"
_TAG_REACH = 256
_MOST_PARAMETERS = 1000
_WORDS: Mapping[str, object] = {"true": True, "false": False, "null": None, "none": None}
_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def read_tool_call(text: str, position: int, offered: OfferedTools, opening: str, closing: str) -> CallBlock | None:
    """Read what stands between two tags, JSON or functions; `position` is behind the first, the second may be missing."""
    start = skip_white_space(text, position)

    if not text.startswith(FUNCTION, start):
        block = read_calls(text, start, offered)
        return None if block is None else close_block(text, block, opening, closing)

    parts: list[ToolCall | str] = []
    end = position

    while len(parts) < MOST_CALLS and text.startswith(FUNCTION, start):
        block = read_function(text, start + len(FUNCTION), offered, closing)

        if block is None or block.is_cut:
            return CallBlock(end, tuple(parts), is_cut=True) if parts else block

        parts.extend(block.parts)
        end = block.end
        start = skip_white_space(text, end)

    return close_block(text, CallBlock(end, tuple(parts)), opening, closing)


def read_function(
    text: str, position: int, offered: OfferedTools, outer_closing: str = "</tool_call>"
) -> CallBlock | None:
    """Read one function; `position` is behind `<function=`.

    outer_closing: the tag that ends the markup around the function; it may stand in for a missing `</function>`.
    """
    tag_end = text.find(">", position, position + _TAG_REACH)

    if tag_end < 0:
        return None

    name = text[position:tag_end].strip(" \"'/")
    start = skip_white_space(text, tag_end + 1)

    if text.startswith("{", start):
        return _read_json_arguments(text, position, start, name, offered)

    arguments, end = _read_parameters(text, start, offered.get(name))

    if text.startswith(_FUNCTION_END, end):
        end += len(_FUNCTION_END)
    elif not text.startswith(outer_closing, end):
        # Reading goes on behind what was read, not behind the first tag: many functions around one end would cost too much.
        return CallBlock(end, (text[position - len(FUNCTION) : end],), is_cut=True)

    return _block(text, position, end, make_call(name, arguments, offered))


def _block(text: str, position: int, end: int, call: ToolCall | None) -> CallBlock:
    return CallBlock(end, (call or text[position - len(FUNCTION) : end],))


def _read_json_arguments(text: str, position: int, start: int, name: str, offered: OfferedTools) -> CallBlock | None:
    found = read_json(text, start)

    if found is None:
        return None

    arguments, end = found
    closing_start = skip_white_space(text, end)

    if text.startswith(_FUNCTION_END, closing_start):
        end = closing_start + len(_FUNCTION_END)

    return _block(text, position, end, make_call(name, arguments, offered))


def _read_parameters(text: str, start: int, schema: JsonSchema | None) -> tuple[dict[str, object], int]:
    """The arguments from `start` on and the offset of what follows them. One that has no end is not among them, so that it follows."""
    properties = _mapping(_mapping(schema).get("properties"))
    arguments: dict[str, object] = {}

    for _ in range(_MOST_PARAMETERS):
        if not text.startswith(_PARAMETER, start):
            break

        key_start = start + len(_PARAMETER)
        key_end = text.find(">", key_start, key_start + _TAG_REACH)
        value_end = text.find(_PARAMETER_END, key_end) if key_end >= 0 else -1

        if value_end < 0:
            break

        key = text[key_start:key_end].strip(" \"'")
        raw = text[key_end + 1 : value_end].removeprefix("\n").removesuffix("\n")
        arguments[key] = typed_value(raw, properties.get(key))
        start = skip_white_space(text, value_end + len(_PARAMETER_END))

    return arguments, start


def typed_value(raw: str, schema: object) -> object:
    """The value of a parameter's text under its JSON schema: text stays text where the schema allows it or says nothing."""
    types = set(_types_of(schema, depth=0))

    if not types:
        return raw

    word = raw.strip().lower()

    if word in _WORDS:
        value: object = _WORDS[word]
    else:
        found = read_json(raw, skip_white_space(raw, 0))
        is_whole = found is not None and skip_white_space(raw, found[1]) == len(raw)
        value = found[0] if found is not None and is_whole else raw

    if value is None:
        return None if "null" in types else raw

    if "string" in types:
        return raw

    return value if any(_is_of_type(value, name) for name in types) else raw


def _is_of_type(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"

    return isinstance(value, _PYTHON_TYPES.get(name, ()))


def _types_of(schema: object, depth: int) -> Iterable[str]:
    """The names of all types that a schema allows, as far as it says so plainly."""
    described = _mapping(schema)
    named = described.get("type")
    yield from [named] if isinstance(named, str) else _strings(named)

    for key in ("anyOf", "oneOf"):
        choices = described.get(key)

        if isinstance(choices, list) and depth < 4:
            for choice in choices:
                yield from _types_of(choice, depth + 1)


def _strings(value: object) -> Iterable[str]:
    return (item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
