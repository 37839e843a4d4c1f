"""Finds text that no engine can take: a NUL (it cuts the prompt short) or half of a surrogate pair (it is no character at all).

Works on the raw bytes of a JSON body, so that every string is covered, wherever it stands. Called by `prism.api.json_body`. Pure and
linear: a clean body costs one search in C, and no field is named behind a fixed number of bytes or tokens.
"""

import re

import msgspec

# Written so that the pattern begins with literal bytes: the search then runs at the speed of memchr.
_LONE_SURROGATE = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)
_REACH = len(rb"\ud83d\ude00") * 2
_NUL = b"\\u0000"
_TOKEN = re.compile(rb'"([^"]*)(?:"[ \t\r\n]*(:?)|\Z)|[\[\]{},]')  # \\Z: the string that the search was cut off in
_MAX_BYTES_TO_NAME_A_FIELD = 4 << 20
_MAX_TOKENS_TO_NAME_A_FIELD = 20_000
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

    plain = _without_escaped_backslashes(body)
    offset = plain.find(_NUL)

    return None if offset < 0 else _fault("a NUL character", plain, offset)


def find_lone_surrogate(body: bytes, near: int | None = None) -> TextFault | None:
    """Return the first surrogate escape that is not part of a pair.

    near: where a decoder gave up. Only what stands right before counts then: to search a whole body of good pairs takes long.
    """
    plain = _without_escaped_backslashes(body)
    begin, end = (0, len(body)) if near is None else (max(0, near - _REACH), near + _REACH)
    found = _LONE_SURROGATE.search(plain, begin, end)

    if found is None or (near is not None and found.start() > near):
        return None

    return _fault("half of a surrogate pair", plain, found.start())


def _without_escaped_backslashes(body: bytes) -> bytes:
    """Return a copy of the same length in which every backslash begins an escape."""
    return body.replace(b"\\\\", b"__")


def _fault(what: str, plain: bytes, offset: int) -> TextFault:
    if offset > _MAX_BYTES_TO_NAME_A_FIELD:
        return TextFault(what, offset, None)

    # Now every quote begins or ends a string.
    return TextFault(what, offset, _field_behind(plain[:offset].replace(b'\\"', b"__")))


def _field_behind(plain: bytes) -> str | None:
    """Return the path of the value (or of the object whose key) in which this beginning of a body ends, such as `messages[2].content`."""
    path: list[str | int] = []

    for number, token in enumerate(_TOKEN.finditer(plain)):
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
