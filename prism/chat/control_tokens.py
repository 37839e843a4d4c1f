"""Keeps control tokens that a client typed from becoming control tokens of the prompt.

Called by `prompt.py` before and after a template is rendered; pure. A tokenizer turns the text `<|im_end|>` into the token that ends a
turn, whoever wrote it. So a mark, a character that occurs nowhere else, is put into each such text behind its first character; the
template copies it along; and the finished prompt is cut at the marks. Each piece is encoded by itself, so no piece holds the whole token,
and the pieces joined are what the template would have written without any of this.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

# Unicode sets these aside as no characters at all, so honest text has none of them; the private ones come next.
_MARK_RANGES = (range(0xFDD0, 0xFDF0), range(0xE000, 0xF900), range(0xF0000, 0xFFFFE))
_MIN_SUFFIX = 2


class NoMarkLeft(Exception):
    """The texts use up every character that could serve as a mark."""


class TokenSet:
    """Special tokens, prepared for searching. Does not change."""

    def __init__(self, tokens: Iterable[str]) -> None:
        """A token of one character cannot be cut, so it is left alone."""
        kept = sorted({token for token in tokens if len(token) > 1})
        rests: dict[str, list[str]] = {}

        for token in kept:
            rests.setdefault(token[0], []).append(re.escape(token[1:]))

        # A match is the first character only: tokens that overlap are all found.
        branches = [f"{re.escape(first)}(?={'|'.join(rest)})" for first, rest in rests.items()]
        self._pattern = re.compile("|".join(branches)) if branches else None
        self._firsts = tuple(rests)
        self._longest = max(map(len, kept), default=0)
        self._prefixes = frozenset(token[:length] for token in kept for length in range(1, len(token)))
        self._suffixes = frozenset(token[start:] for token in kept for start in range(1, len(token) - _MIN_SUFFIX + 1))
        self._suffix_heads = frozenset(suffix[:_MIN_SUFFIX] for suffix in self._suffixes)

    def cuts(self, text: str) -> list[int]:
        """Where the text has to be cut so that no token is left whole in it, nor can be made up of it and what stands beside it."""
        if self._pattern is None or not text:
            return []

        found: set[int] = set()
        # Templates strip a text before they put it between their own: the edges of the stripped text count as well.
        start = len(text) - len(text.lstrip())

        for place in (0, start):
            if self._begins_inside_token(text, place):
                found.add(place)

        if any(first in text for first in self._firsts):
            found.update(match.end() for match in self._pattern.finditer(text))
            found.update(place for place in (len(text.rstrip()), len(text)) if self._ends_inside_token(text, place))

        return sorted(found)

    def _begins_inside_token(self, text: str, start: int) -> bool:
        if text[start : start + _MIN_SUFFIX] not in self._suffix_heads:
            return False

        return any(text[start : start + length] in self._suffixes for length in range(_MIN_SUFFIX, self._longest))

    def _ends_inside_token(self, text: str, end: int) -> bool:
        tail = text[max(0, end - self._longest) : end]
        return any(tail[start:] in self._prefixes for start in range(len(tail)))


def mark_for(texts: Sequence[str]) -> str:
    """Return a mark that occurs in none of the texts, neither itself nor as a JSON escape. Raises NoMarkLeft."""
    escaped = [text.lower() for text in texts if "\\u" in text or "\\U" in text]

    for codes in _MARK_RANGES:
        for mark in map(chr, codes):
            escape = _escape_of(mark)

            if not any(mark in text for text in texts) and not any(escape in text for text in escaped):
                return mark

    raise NoMarkLeft


def with_marks(value: object, tokens: TokenSet, mark: str) -> object:
    """Return the value, whatever it holds, with a mark at each cut of each text in it, keys included."""
    if isinstance(value, str):
        return _marked(value, tokens, mark)

    if isinstance(value, Mapping):
        return {with_marks(key, tokens, mark): with_marks(part, tokens, mark) for key, part in value.items()}

    if isinstance(value, list | tuple):
        return [with_marks(part, tokens, mark) for part in value]

    return value


def texts_in(value: object) -> Iterator[str]:
    """Every text in a nested value, keys included."""
    rest: list[object] = [value]

    while rest:
        current = rest.pop()

        if isinstance(current, str):
            yield current
        elif isinstance(current, Mapping):
            rest.extend(current.keys())
            rest.extend(current.values())
        elif isinstance(current, Sequence):
            rest.extend(current)


def pieces_of(prompt: str, mark: str) -> tuple[str, ...]:
    """Cut a prompt at its marks, those that went through JSON with escapes included."""
    if "\\u" in prompt:
        prompt = prompt.replace(_escape_of(mark), mark)

    return tuple(piece for piece in prompt.split(mark) if piece)


def _marked(text: str, tokens: TokenSet, mark: str) -> str:
    cuts = tokens.cuts(text)

    if not cuts:
        return text

    return mark.join(text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True))


def _escape_of(mark: str) -> str:
    return json.dumps(mark)[1:-1]
