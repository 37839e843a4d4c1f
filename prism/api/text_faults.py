"""Finds text that no engine can take: a NUL (it cuts the prompt short) or half of a surrogate pair (it is no character at all).

Works on the raw bytes of a JSON body, so that every string is covered, wherever it stands. Called by `prism.api.json_body`. Pure and
linear: a clean body costs one search in C, and naming the field stops after a fixed number of tokens.
"""

import re

import msgspec

# Written so that the pattern begins with literal bytes: the search then runs at the speed of memchr.
_LONE_SURROGATE = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)
_NUL = b"\\u0000"
_TOKEN = re.compile(rb'"([^"]*)(?:"[ \t\r\n]*(:?)|\Z)|[\[\]{},]')  # \\Z: the string that the search was cut off in
_MAX_TOKENS_TO_NAME_A_FIELD = 50_000
_MAX_NAME_CHARS = 200


class TextFault(msgspec.Struct, frozen=True):
    """What is wrong, where in the body, and in which field. field: None when the body is too tangled to tell."""

    what: str
    offset: int
    field: str | None


def find_nul(body: bytes) -> TextFault | None:
    """Return the first `\\u0000` escape that really is one (an escaped backslash may stand before the `u`)."""
    if _NUL not in body:
        return None

    plain = _without_escaped_quotes(body)
    offset = plain.find(_NUL)

    return None if offset < 0 else TextFault("a NUL character", offset, _field_at(plain, offset))


def find_lone_surrogate(body: bytes) -> TextFault | None:
    """Return the first surrogate escape that is not part of a pair."""
    plain = _without_escaped_quotes(body)
    found = _LONE_SURROGATE.search(plain)

    return (
        None if found is None else TextFault("half of a surrogate pair", found.start(), _field_at(plain, found.start()))
    )


def _without_escaped_quotes(body: bytes) -> bytes:
    """Return a copy of the same length in which every backslash begins an escape and every quote begins or ends a string."""
    return body.replace(b"\\\\", b"__").replace(b'\\"', b"__")


def _field_at(plain: bytes, offset: int) -> str | None:
    """Return the path of the value (or of the object whose key) that holds `offset`, such as `messages[2].content`."""
    path: list[str | int] = []

    for number, token in enumerate(_TOKEN.finditer(plain, 0, offset)):
        if number >= _MAX_TOKENS_TO_NAME_A_FIELD:
            return None

        _step(path, token)

    return _written(path)


def _step(path: list[str | int], token: re.Match[bytes]) -> None:
    match token.group()[:1]:
        case b"[":
            path.append(0)

        case b"{":
            path.append("")

        case b"]" | b"}":
            del path[-1:]

        case b"," if path:
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else ""

        case b'"' if token.group(2) and path:
            path[-1] = token.group(1).decode("utf-8", "replace")


def _written(path: list[str | int]) -> str | None:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path if step != "")

    return text.removeprefix(".")[:_MAX_NAME_CHARS] or None
