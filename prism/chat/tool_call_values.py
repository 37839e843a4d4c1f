"""What a call of a tool is, and how one is made from the values that a model wrote.

Used by the readers of the call formats, in the front's event loop; nothing blocks.

A model may write anything, so every failure here is an ordinary answer (None), never an error: broken JSON, nesting past the interpreter's
bound, numbers that JSON cannot carry, half of a surrogate pair.
"""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

JsonSchema: TypeAlias = Mapping[str, object]
OfferedTools: TypeAlias = Mapping[str, JsonSchema | None]

MOST_CALLS = (
    1000  # in one answer; what follows is taken as text, so that a model that lists calls for ever costs little
)

_WHITE_SPACE = re.compile(r"[ \t\r\n]*+")
_NAME_KEYS = ("name", "tool_name")
_ARGUMENTS_KEYS = ("arguments", "parameters")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call, ready for the client.

    id: `call_` and 24 hexadecimal digits, unique.
    arguments: a JSON object, as compact text.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class CallBlock:
    """A stretch of text that was read as calls.

    end: offset behind the stretch, closing markup included.
    parts: calls, and texts of what looked like a call and is none, in order.
    is_cut: something unreadable follows where another call should be.
    """

    end: int
    parts: tuple[ToolCall | str, ...]
    is_cut: bool = False

    @property
    def has_calls(self) -> bool:
        return any(isinstance(part, ToolCall) for part in self.parts)


def skip_white_space(text: str, position: int) -> int:
    """The offset of the first character from `position` on that is not white space of JSON."""
    match = _WHITE_SPACE.match(text, position)
    return position if match is None else match.end()


def read_json(text: str, position: int) -> tuple[object, int] | None:
    """The JSON value that begins at `position` and the offset behind it, or None. Raw newlines in strings are allowed, as models do."""
    try:
        return _DECODER.raw_decode(text, position)
    except (ValueError, RecursionError):
        return None


def call_of_value(value: object, offered: OfferedTools, *, needs_arguments: bool = False) -> ToolCall | None:
    """The call that a decoded JSON object describes, or None if it is none or names a tool that was not offered.

    needs_arguments: an object without a key for arguments is no call (for text that carries no call markup).
    """
    if not isinstance(value, dict):
        return None

    nested = value.get("function")
    described = nested if isinstance(nested, dict) else value
    name = next((described[key] for key in _NAME_KEYS if key in described), None)
    key = next((key for key in _ARGUMENTS_KEYS if key in described), None)

    if not isinstance(name, str) or (key is None and needs_arguments):
        return None

    return make_call(name, {} if key is None else described[key], offered)


def make_call(name: str, arguments: object, offered: OfferedTools) -> ToolCall | None:
    """A call of an offered tool, or None.

    arguments: an object, a text that holds one, or None or a blank text for no arguments.
    """
    name = name.strip()

    if isinstance(arguments, str):
        arguments = _decode_whole(arguments) if arguments.strip() else None

    if arguments is None:
        arguments = {}

    if name not in offered or not isinstance(arguments, dict):
        return None

    encoded = _encode(arguments)
    return None if encoded is None else ToolCall(id=f"call_{secrets.token_hex(12)}", name=name, arguments=encoded)


def _decode_whole(text: str) -> object:
    """The JSON value that is the whole text; the text itself, which is no object, if it is not JSON."""
    found = read_json(text, skip_white_space(text, 0))

    if found is None or skip_white_space(text, found[1]) != len(text):
        return text

    return found[0]


def _encode(arguments: dict[str, object]) -> str | None:
    try:
        encoded = json.dumps(arguments, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return None

    if encoded.isascii() or _is_unicode(encoded):
        return encoded

    return json.dumps(arguments, allow_nan=False, separators=(",", ":"))


def _is_unicode(text: str) -> bool:
    """False if the text holds half of a surrogate pair, which no response body can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False

    return True


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)
