"""Regular expressions of JSON Schemas -> the dialect of the engine's grammar compiler. Called by `schema_keywords.py`; pure.

Clients write the dialect of JavaScript or of Python, and check answers with either; the compiler has Rust's. What differs between them is
narrowed to what all accept: `\\W` and `\\D` leave out the letters and digits of every script, `\\d` and `\\w` are those of ASCII.
Characters that JSON writes as `\\u0000` are taken out of every class: the compiler (llguidance in onnxruntime-genai 0.18) allows a
backslash wherever it allows those, whatever the class says. What cannot be followed is refused, with the part that is to blame.
"""

from typing import Final

MAX_PATTERN_CHARS: Final = 4_096

_PLAIN: Final = r"[^\x00-\x08\x0b\x0c\x0e-\x1f]"
# What every dialect counts as one, and what any of them does.
_SETS: Final = {
    "d": ("0-9", r"\p{Nd}"),
    "w": ("0-9A-Za-z_", r"\p{L}\p{M}\p{N}_"),
    "s": (r"\s", r"\s\x1c-\x1f\x{feff}"),
}
# What Rust gives a meaning inside a class, and the others do not.
_CLASS_OPERATORS: Final = frozenset("[&~")
_PASSED_ESCAPES: Final = frozenset("tnrfv.*+?()[]{}|^$\\/-\"'#&~ !%,:;<=>@`_")
_HEX_LENGTH: Final = {"x": 2, "u": 4}


class PatternUnsupported(ValueError):
    """The pattern cannot be enforced. The message says which part of it."""


def compiler_pattern(pattern: str) -> str:
    """Return the pattern as the compiler takes it. Raises PatternUnsupported."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise PatternUnsupported(f"it is longer than {MAX_PATTERN_CHARS} characters")

    return _Translator(pattern).translate()


class _Translator:
    """Reads a pattern once, from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def translate(self) -> str:
        parts: list[str] = []

        while self._at < len(self._pattern):
            match self._pattern[self._at]:
                case "\\":
                    parts.append(self._escape_outside())
                case "[":
                    parts.append(self._class())
                case "(":
                    parts.append(self._group())
                case _:
                    parts.append(self._take())

        return "".join(parts)

    def _take(self, count: int = 1) -> str:
        taken = self._pattern[self._at : self._at + count]
        self._at += count
        return taken

    def _group(self) -> str:
        for look, name in (
            ("(?=", "look-ahead"),
            ("(?!", "look-ahead"),
            ("(?<=", "look-behind"),
            ("(?<!", "look-behind"),
        ):
            if self._pattern.startswith(look, self._at):
                raise PatternUnsupported(f"{name} ('{look}') cannot be enforced")

        return self._take()

    def _escape_outside(self) -> str:
        self._at += 1
        letter = self._take()

        if (named := _SETS.get(letter.lower())) is not None:
            narrow, wide = named
            return f"[[^{wide}]&&{_PLAIN}]" if letter.isupper() else f"[{narrow}]"

        match letter:
            case "A" | "z":
                return f"\\{letter}"
            case "p" | "P":
                return f"[\\{letter}{self._property()}&&{_PLAIN}]"
            case _:
                return self._character(letter)

    def _character(self, letter: str) -> str:
        """The escape of one character, which means the same inside and outside a class."""
        if letter in _HEX_LENGTH:
            return self._hexadecimal(letter)

        if letter not in _PASSED_ESCAPES:
            raise PatternUnsupported(
                f"'\\{letter}' cannot be enforced" if letter else "it ends in the middle of an escape"
            )

        # Escaped for the other dialects only.
        return letter if letter in "\"'/ !%,:;<=>@`_" else f"\\{letter}"

    def _hexadecimal(self, letter: str) -> str:
        if letter == "u" and self._pattern.startswith("{", self._at):
            digits = self._pattern[self._at + 1 : self._pattern.find("}", self._at)]
            self._at += len(digits) + 2
        else:
            digits = self._take(_HEX_LENGTH[letter])

        try:
            code = int(digits, 16)
            chr(code).encode()
        except (ValueError, OverflowError):
            raise PatternUnsupported(f"'\\{letter}{digits}' is no character") from None

        return f"\\x{{{code:x}}}"

    def _property(self) -> str:
        end = self._pattern.find("}", self._at) if self._pattern.startswith("{", self._at) else -1

        if end < 0:
            raise PatternUnsupported("'\\p' needs a property in braces")

        return self._take(end + 1 - self._at)

    def _class(self) -> str:
        start = self._at
        self._at += 1
        is_negated = self._pattern.startswith("^", self._at)
        self._at += is_negated
        parts: list[str] = []

        while not self._pattern.startswith("]", self._at):
            if self._at >= len(self._pattern):
                raise PatternUnsupported(f"the class '{self._pattern[start : start + 20]}' does not end")

            parts.append(self._class_item(is_negated=is_negated))

        self._at += 1

        if not parts:
            raise PatternUnsupported("an empty class cannot be enforced")

        return f"[[{'^' if is_negated else ''}{''.join(parts)}]&&{_PLAIN}]"

    def _class_item(self, *, is_negated: bool) -> str:
        character = self._take()

        if character in _CLASS_OPERATORS:
            return f"\\{character}"

        if character != "\\":
            return character

        letter = self._take()

        if (named := _SETS.get(letter.lower())) is not None:
            # A narrow set becomes a wide one when the class around it, or the set itself, is negated.
            narrow, wide = named
            chosen = wide if is_negated != letter.isupper() else narrow
            return f"[^{chosen}]" if letter.isupper() else chosen

        match letter:
            case "b":
                return r"\x{8}"
            case "p" | "P":
                return f"\\{letter}{self._property()}"
            case _:
                return self._character(letter)
