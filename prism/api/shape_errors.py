"""Turns what msgspec says about a body of the wrong shape into a sentence for people and the path of the field.

Called by `prism.api.json_body`. The only file that knows the wording of msgspec's messages. Pure.
"""

import re

import msgspec

from prism.api.errors import ApiError
from prism.api.refusals import invalid_request

_EXPECTED = re.compile(r"^Expected `([^`]*)`, got `([^`]*)`$")
_TOO_SHORT_OR_LONG = re.compile(r"^Expected `(\w+)` of length (<=|>=) (\d+)$")
_MISSING = re.compile(r"^Object missing required field `([^`]*)`$")
_INVALID_ENUM = re.compile(r"^Invalid enum value (.*)$", re.DOTALL)
_PLACE = re.compile(r"\(byte (\d+)\)$")
_MAX_ECHO_CHARS = 80

_NAMES = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "an integer",
    "null": "null",
    "object": "an object",
    "str": "a string",
}
# A JSON number is a "float" to msgspec when it has a fraction or an exponent.
_GOT_NAMES = _NAMES | {"bool": "a boolean", "float": "a number with a fraction"}


def shape_error(error: msgspec.ValidationError) -> ApiError:
    """Return the 400 for a body that is JSON and not of the documented shape."""
    what, path = _split(str(error))

    if missing := _MISSING.match(what):
        field = f"{path}.{missing[1]}" if path else missing[1]
        return invalid_request(f"'{field}' is required.", field)

    if not path:
        return invalid_request(f"The body must be a JSON object, not {_got(what)}.")

    return invalid_request(f"'{path}' {_sentence(what)}.", path)


def place_of_fault(error: msgspec.DecodeError, body: bytes) -> int:
    """Return the byte where the decoder gave up on bytes that are no JSON: their end where it does not tell."""
    found = _PLACE.search(str(error))

    return len(body) if found is None else int(found[1])


def _split(text: str) -> tuple[str, str]:
    # From the right: what comes before may quote the client's own text.
    what, found, path = text.rpartition(" - at `$")

    return (what, path.rstrip("`").removeprefix(".")) if found else (text, "")


def _got(what: str) -> str:
    expected = _EXPECTED.match(what)

    return _GOT_NAMES.get(expected[2], expected[2]) if expected else "something else"


def _sentence(what: str) -> str:
    if expected := _EXPECTED.match(what):
        return f"must be {_either(expected[1])}, not {_got(what)}"

    if enum := _INVALID_ENUM.match(what):
        return f"has the unknown value {_shortened(enum[1])}"

    if length := _TOO_SHORT_OR_LONG.match(what):
        return _length_sentence(length[1], length[2], int(length[3]))

    if "out of range" in what:
        return "is a number out of range"

    return f"is not valid: {_shortened(what)}"


def _either(types: str) -> str:
    names = [_NAMES.get(name, name) for name in types.split(" | ")]

    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _length_sentence(kind: str, comparison: str, bound: int) -> str:
    unit = "characters" if kind == "str" else "entries"

    if comparison == "<=":
        return f"must have at most {bound} {unit}"

    return "must not be empty" if bound == 1 else f"must have at least {bound} {unit}"


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_ECHO_CHARS else text[: _MAX_ECHO_CHARS - 1] + "…"
