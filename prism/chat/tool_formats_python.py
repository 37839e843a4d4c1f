"""Reader of calls that are written like Python: `[name(argument=value), ...]` (Llama 3.2 and 4). Nothing blocks, nothing is evaluated.

Python's own parser is not used: it cannot say where a value ends, it warns about unknown escapes, and deep nesting exhausts it. This one
knows literals only, is linear in the text, and bounded in depth and in the number of values.
"""

import re
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from prism.chat.tool_call_values import CallBlock, OfferedTools, ToolCall, make_call

_DEEPEST = 64
_MOST_VALUES = 2000

_SPACE = re.compile(r"\s*+")
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,127}+")
_NUMBER = re.compile(r"[+-]?(?:\d{1,300}+(?:\.\d{0,300}+)?|\.\d{1,300}+)(?:[eE][+-]?\d{1,4}+)?(?![\w.])")
_STRING = re.compile(
    r'"""(?P<a>[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*+)"""'
    r"|'''(?P<b>[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*+)'''"
    r'|"(?P<c>[^"\\]*+(?:\\.[^"\\]*+)*+)"'
    r"|'(?P<d>[^'\\]*+(?:\\.[^'\\]*+)*+)'",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_PLAIN_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "a": "\a",
    "0": "\0",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "\n": "",
}
_WORDS = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}

_Item = TypeVar("_Item")
_Keyword: TypeAlias = tuple[str, object]
_Read: TypeAlias = Callable[[int, int], tuple[_Item, int]]


class _NotALiteral(ValueError):
    """The text does not go on as a literal or a call."""


def read_call_list(text: str, position: int, offered: OfferedTools) -> CallBlock | None:
    """Read `[call, ...]`, or one call without the brackets, from `position` on. None if not even one call can be read.

    A call that cannot be read ends the block; calls before it are kept, and the block is marked as cut.
    """
    reader = _LiteralReader(text)
    start = reader.skip(position)
    has_bracket = text.startswith("[", start)
    start = reader.skip(start + 1) if has_bracket else start
    parts: list[ToolCall | str] = []

    while True:
        try:
            name, arguments, end = reader.read_call(start)
        except _NotALiteral:
            return CallBlock(start, tuple(parts), is_cut=True) if parts else None

        parts.append(make_call(name.removesuffix(".call"), arguments, offered) or text[start:end])
        behind = reader.skip(end)

        if not has_bracket:
            return CallBlock(end, tuple(parts))

        if text.startswith(",", behind):
            behind = reader.skip(behind + 1)
        elif not text.startswith("]", behind):
            return CallBlock(end, tuple(parts), is_cut=True)

        if text.startswith("]", behind):
            return CallBlock(behind + 1, tuple(parts))

        start = behind


def read_whole_list(text: str, offered: OfferedTools) -> CallBlock | None:
    """Read a reply that is nothing but a list of calls, at least one of which is of an offered tool."""
    if not text.lstrip().startswith("["):
        return None

    block = read_call_list(text, 0, offered)

    if block is None or block.is_cut or not block.has_calls or text[block.end :].strip():
        return None

    return block


class _LiteralReader:
    """Reads calls and literals out of one text. Each method takes an offset and returns what it read and the offset behind it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._values_left = _MOST_VALUES

    def read_call(self, start: int) -> tuple[str, dict[str, object], int]:
        name = _NAME.match(self._text, start)

        if name is None or not self._text.startswith("(", name.end()):
            raise _NotALiteral

        arguments, end = self._read_items(name.end() + 1, ")", self._read_keyword, 0)
        return name.group(), dict(arguments), end

    def skip(self, position: int) -> int:
        match = _SPACE.match(self._text, position)
        return position if match is None else match.end()

    def _read_keyword(self, position: int, depth: int) -> tuple[_Keyword, int]:
        name = _NAME.match(self._text, position)

        if name is None:
            raise _NotALiteral

        value, end = self._read_value(self._expect(self.skip(name.end()), "="), depth)
        return (name.group(), value), end

    def _read_pair(self, position: int, depth: int) -> tuple[_Keyword, int]:
        key, key_end = self._read_value(position, depth)

        if not isinstance(key, str):
            raise _NotALiteral

        value, end = self._read_value(self._expect(self.skip(key_end), ":"), depth)
        return (key, value), end

    def _read_value(self, position: int, depth: int) -> tuple[object, int]:
        start = self.skip(position)
        self._values_left -= 1

        if depth > _DEEPEST or self._values_left < 0:
            raise _NotALiteral

        match self._text[start : start + 1]:
            case "[":
                return self._read_items(start + 1, "]", self._read_value, depth + 1)

            case "(":
                return self._read_items(start + 1, ")", self._read_value, depth + 1)

            case "{":
                pairs, end = self._read_items(start + 1, "}", self._read_pair, depth + 1)
                return dict(pairs), end

            case _:
                return self._read_scalar(start)

    def _read_items(self, position: int, closing: str, read: _Read[_Item], depth: int) -> tuple[list[_Item], int]:
        """Read items up to the closing bracket; `position` is behind the opening one."""
        items: list[_Item] = []
        position = self.skip(position)

        while not self._text.startswith(closing, position):
            item, position = read(position, depth)
            items.append(item)
            position = self.skip(position)

            if not self._text.startswith(closing, position):
                position = self.skip(self._expect(position, ","))

        return items, position + 1

    def _read_scalar(self, start: int) -> tuple[object, int]:
        if (string := _STRING.match(self._text, start)) is not None:
            return _unescape(string[string.lastgroup or 0]), string.end()

        if (number := _NUMBER.match(self._text, start)) is not None:
            digits = number.group()
            return (int(digits) if digits.lstrip("+-").isdecimal() else float(digits)), number.end()

        word = _NAME.match(self._text, start)

        if word is None or word.group() not in _WORDS:
            raise _NotALiteral

        return _WORDS[word.group()], word.end()

    def _expect(self, position: int, character: str) -> int:
        if not self._text.startswith(character, position):
            raise _NotALiteral

        return position + 1


def _unescape(body: str) -> str:
    return _ESCAPE.sub(_unescape_one, body) if "\\" in body else body


def _unescape_one(escape: re.Match[str]) -> str:
    digits = escape[1] or escape[2] or escape[3]

    if digits is None:
        return _PLAIN_ESCAPES.get(escape[4], escape[0])

    code = int(digits, 16)
    return chr(code) if code <= 0x10FFFF else escape[0]
