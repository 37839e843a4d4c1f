"""The part of a grammar that is calls of tools, in the convention of the model's family. Called by the chat handler; pure.

Each way of writing a call here is one that `tool_calls.py` reads back. Where a tool cannot be told in the family's own way (a name with a
space, arguments that XML cannot hold), the calls are bare JSON, which is read for every family when it is the whole answer.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prism.chat.answer_grammar import GrammarWords, json_part
from prism.chat.tool_family import ToolFamily

# A model that is at a loss would list calls for ever.
MOST_CALLS: Final = 16
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_HARMONY: Final = "<|channel|>"


@dataclass(frozen=True, slots=True)
class CallableTool:
    """A tool that may be called. arguments: the schema of its arguments, as `prism.api.schema_rewriting` leaves it; written: as sent."""

    name: str
    arguments: Mapping[str, object]
    written: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Style:
    """How calls are written. before, after: around all of them; between: two of them, None where there is only ever one.

    call: the part that is one call.
    """

    before: str
    between: str | None
    after: str
    call: Callable[[GrammarWords, CallableTool], str]


def call_rules(
    tools: Sequence[CallableTool], family: ToolFamily, words: GrammarWords, *, template_text: str, is_single: bool
) -> tuple[str, str]:
    """Return the part of a grammar that is one or more calls, and the rules that it needs.

    is_single: exactly one call.
    """
    style = _style(tools, family, words, template_text)
    rules = [f"call{number}: {style.call(words, tool)}" for number, tool in enumerate(tools)]
    rules.append(f"call: {' | '.join(f'call{number}' for number in range(len(tools)))}")

    if style is _XML:
        rules.append("text_parameter: text_value " + _text("\n"))
        rules.append(f"text_value[lazy]: {words.lazy('</parameter>')}")

    is_one = is_single or style.between is None
    more = "" if is_one else f" ({words.text(style.between or '')} call){{0,{MOST_CALLS - 1}}}"
    part = " ".join([words.text(style.before), f"call{more}", words.text(style.after)])
    return part.strip(), "\n".join(rules) + "\n"


def _style(tools: Sequence[CallableTool], family: ToolFamily, words: GrammarWords, template_text: str) -> _Style:
    if not all(_PLAIN_NAME.fullmatch(tool.name) for tool in tools):
        return _BARE

    match family:
        case ToolFamily.HERMES:
            return _HERMES
        case ToolFamily.PHI4_MINI:
            return _PHI
        case ToolFamily.MISTRAL:
            return _MISTRAL_NAMED if words.is_special("[ARGS]") else _MISTRAL
        case ToolFamily.LLAMA3_JSON:
            return _LLAMA3
        case ToolFamily.LLAMA4_PYTHONIC:
            return _PYTHONIC if all(_is_pythonic(tool) for tool in tools) else _BARE
        case ToolFamily.QWEN3_CODER_XML:
            return _XML if all(_is_xml(tool) for tool in tools) else _HERMES
        case ToolFamily.DEEPSEEK:
            return _DEEPSEEK_FENCED if "```json" in template_text else _DEEPSEEK
        case ToolFamily.UNKNOWN:
            return _unknown(words)


def _unknown(words: GrammarWords) -> _Style:
    if words.is_special("<|START_ACTION|>"):
        return _COMMAND

    return _HARMONY_CALL if words.is_special(_HARMONY) else _HERMES


def _json_call(arguments_key: str) -> Callable[[GrammarWords, CallableTool], str]:
    def call(words: GrammarWords, tool: CallableTool) -> str:
        # Not `words.text`: a name is text, whatever it looks like.
        head = f'{{"name": {json.dumps(tool.name, ensure_ascii=False)}, "{arguments_key}": '
        return f'{json.dumps(head)} {json_part(tool.arguments)} "}}"'

    return call


def _hermes_call(words: GrammarWords, tool: CallableTool) -> str:
    newline = _text("\n")
    call = _json_call("arguments")(words, tool)
    return " ".join([words.text("<tool_call>"), newline, call, newline, words.text("</tool_call>")])


def _around(before: str, after: str) -> Callable[[GrammarWords, CallableTool], str]:
    """A call that is its arguments between two texts; `{name}` in the first stands for the tool's name."""

    def call(words: GrammarWords, tool: CallableTool) -> str:
        parts = (words.text(before.replace("{name}", tool.name)), json_part(tool.arguments), words.text(after))
        return " ".join(part for part in parts if part)

    return call


def _pythonic_call(words: GrammarWords, tool: CallableTool) -> str:
    properties, required = _properties(tool.arguments), _required(tool.arguments)
    shared = {"$defs": tool.arguments["$defs"]} if "$defs" in tool.arguments else {}
    items = []

    for name, schema in properties.items():
        value = json_part({**(schema if isinstance(schema, Mapping) else {}), **shared})
        items.append((f"{_text(name + '=')} {value}", name in required))

    return f"{_text(tool.name + '(')} {_listed(items)} {_text(')')}"


def _listed(items: Sequence[tuple[str, bool]]) -> str:
    """Items in their order with commas between those that are there; the optional ones may be left out."""
    # From the end: what may follow an item that is there, and what may stand at the beginning.
    following, beginning = "", ""

    for part, is_required in reversed(items):
        here = f"{part} {following}".strip()
        beginning = here if is_required else f"({here}" + (f" | {beginning})" if beginning else ")?")
        following = f'(", " {part})' + ("" if is_required else "?") + (f" {following}" if following else "")

    return beginning


def _xml_call(words: GrammarWords, tool: CallableTool) -> str:
    required = _required(tool.arguments)
    parts = [words.text("<tool_call>"), _text(f"\n<function={tool.name}>\n")]

    for name, schema in _properties(tool.arguments).items():
        assert isinstance(schema, Mapping)
        parameter = _text(f"<parameter={name}>\n") + " " + _xml_value(schema)
        parts.append(parameter if name in required else f"({parameter})?")

    return " ".join([*parts, _text("</function>\n"), words.text("</tool_call>")])


def _xml_value(schema: Mapping[str, object]) -> str:
    """A parameter's value and the tag that ends it."""
    end = "\n</parameter>\n"

    if schema.get("type") != "string":
        return f"{json_part(schema)} {_text(end)}"

    if "enum" in schema:
        values = schema["enum"]
        assert isinstance(values, list)
        return f"({' | '.join(_text(value) for value in values)}) {_text(end)}"

    return "text_parameter"


def _is_pythonic(tool: CallableTool) -> bool:
    return _is_closed(tool.arguments) and all(
        _PLAIN_NAME.fullmatch(name) and "-" not in name for name in _properties(tool.arguments)
    )


def _is_xml(tool: CallableTool) -> bool:
    if not _is_closed(tool.arguments) or "$defs" in tool.arguments:
        return False

    written = _properties(tool.written)
    return all(
        _PLAIN_NAME.fullmatch(name) and _is_xml_value(schema, written.get(name))
        for name, schema in _properties(tool.arguments).items()
    )


def _is_xml_value(schema: object, written: object) -> bool:
    """Whether a value can be told from its text: by one plain type, as the reader of calls tells it."""
    if not isinstance(schema, Mapping) or not isinstance(written, Mapping):
        return False

    named = schema.get("type")

    if named == "string":
        values = schema.get("enum")
        is_listed = isinstance(values, list) and all(isinstance(v, str) and v and "\n" not in v for v in values)
        return schema.keys() == {"type"} or (schema.keys() == {"type", "enum"} and is_listed)

    return isinstance(named, str) and named != "null" and named == written.get("type") and "$ref" not in schema


def _is_closed(schema: Mapping[str, object]) -> bool:
    """Whether the arguments are the listed properties and nothing else."""
    keys = schema.keys() - {"type", "properties", "required", "additionalProperties", "$defs"}
    known = _properties(schema)
    return not keys and schema.get("additionalProperties") is False and all(name in known for name in _required(schema))


def _properties(schema: Mapping[str, object]) -> Mapping[str, object]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _required(schema: Mapping[str, object]) -> Sequence[str]:
    required = schema.get("required")
    return required if isinstance(required, list) else []


def _text(text: str) -> str:
    return json.dumps(text)


_BARE = _Style("", "\n", "", _json_call("arguments"))
_LLAMA3 = _Style("", "; ", "", _json_call("parameters"))
_HERMES = _Style("", "\n", "", _hermes_call)
_PHI = _Style("<|tool_call|>[", ", ", "]<|/tool_call|>", _json_call("arguments"))
_MISTRAL = _Style("[TOOL_CALLS][", ", ", "]", _json_call("arguments"))
_MISTRAL_NAMED = _Style("", "", "", _around("[TOOL_CALLS]{name}[ARGS]", ""))
_PYTHONIC = _Style("[", ", ", "]", _pythonic_call)
_XML = _Style("", "\n", "", _xml_call)
_DEEPSEEK = _Style(
    "<｜tool▁calls▁begin｜>",
    "",
    "<｜tool▁calls▁end｜>",
    _around("<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
)
_DEEPSEEK_FENCED = _Style(
    "<｜tool▁calls▁begin｜>",
    "\n",
    "<｜tool▁calls▁end｜>",
    _around("<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n", "\n```<｜tool▁call▁end｜>"),
)
_COMMAND = _Style("<|START_ACTION|>[", ", ", "]<|END_ACTION|>", _json_call("arguments"))
# `<|call|>` ends the answer, so there is only one.
_HARMONY_CALL = _Style(
    "", None, "", _around("<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>", "")
)
