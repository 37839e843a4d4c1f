"""Reads the text of an env file: one KEY=VALUE a line. Pure; called by `prism.settings`.

Blank lines, lines that begin with # and lines without = say nothing. Quotes, single or double, keep inner spaces and #;
an unterminated quote takes the rest of the line. Without quotes, # after white space begins a comment.
A leading `export ` is allowed, so that a shell can read the same file.
"""

import re

_COMMENT = re.compile(r"(^|\s)#.*")
_EXPORT = re.compile(r"export\s+")


def parse_env_file(text: str) -> dict[str, str]:
    """Return the values by name; the last of two lines with one name wins."""
    values: dict[str, str] = {}

    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")

        if equals and not name.startswith("#"):
            values[_EXPORT.sub("", name, count=1).strip()] = _unquoted(value.strip())

    return values


def _unquoted(value: str) -> str:
    quote = value[:1]

    if quote in ("'", '"'):
        return value[1:].partition(quote)[0]

    return _COMMENT.sub("", value).rstrip()
