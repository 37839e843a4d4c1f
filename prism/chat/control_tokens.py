"""Keeps control tokens that a client typed from becoming control tokens of the prompt.

Called by `prompt.py` before and after a template is rendered; pure. A tokenizer turns the text `<|im_end|>` into the token that ends a
turn, whoever wrote it. So a mark, a character that occurs nowhere else, is put into each such text behind its first character; the
template copies it along; and the finished prompt is cut at the marks. Each piece is encoded by itself, so no piece holds the whole token,
and the pieces joined are what the template would have written without any of this.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

# Unicode sets these aside as no characters at all, so honest text has none of them; the private ones come next.
_MARK_RANGES = (range(0xFDD0, 0xFDF0), range(0xE000, 0xF900), range(0xF0000, 0xFFFFE))
_MARKS = re.compile(f"[{''.join(f'{chr(codes[0])}-{chr(codes[-1])}' for codes in _MARK_RANGES)}]")
_ESCAPES = re.compile(r"\\u(?:db[89a-f][0-9a-f]\\ud[c-f][0-9a-f]{2}|[ef][0-9a-f]{3})")  # of marks, in JSON
_MIN_SUFFIX = 2
# One search of a regular expression lets no other thread run.
_CHARS_AT_A_TIME = 1 << 16
_MOST_FORKS = 40  # in one token; the compiler of regular expressions recurses for each


class NoMarkLeft(Exception):
    """The texts use up every character that could serve as a mark."""


class TokenSet:
    """Special tokens, prepared for searching. Does not change."""

    def __init__(self, tokens: Iterable[str]) -> None:
        """A token of one character cannot be cut, so it is left alone."""
        kept = sorted({token for token in tokens if len(token) > 1})
        self._firsts = tuple(dict.fromkeys(token[0] for token in kept))
        # A match is the first character only: tokens that overlap are all found.
        branches = [
            f"{re.escape(first)}(?={_begins_with([token[1:] for token in kept if token[0] == first])})"
            for first in self._firsts
        ]
        self._pattern = re.compile("|".join(branches)) if branches else None
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
            found.update(self._first_chars(self._pattern, text))
            found.update(place for place in (len(text.rstrip()), len(text)) if self._ends_inside_token(text, place))

        return sorted(found)

    def _first_chars(self, pattern: re.Pattern[str], text: str) -> Iterator[int]:
        """Where the first character of each token ends."""
        for start in range(0, len(text), _CHARS_AT_A_TIME):
            end = start + _CHARS_AT_A_TIME

            for match in pattern.finditer(text, start, end + self._longest):
                if match.start() < end:
                    yield match.end()

    def _begins_inside_token(self, text: str, start: int) -> bool:
        if text[start : start + _MIN_SUFFIX] not in self._suffix_heads:
            return False

        return any(text[start : start + length] in self._suffixes for length in range(_MIN_SUFFIX, self._longest))

    def _ends_inside_token(self, text: str, end: int) -> bool:
        tail = text[max(0, end - self._longest) : end]
        return any(tail[start:] in self._prefixes for start in range(len(tail)))


def mark_for(texts: Sequence[str]) -> str:
    """Return a mark that occurs in none of the texts, neither itself nor as a JSON escape. Raises NoMarkLeft."""
    used: set[str] = set()

    for text in texts:
        if not text.isascii():
            used.update(_found(_MARKS, text))

        if "\\u" in text or "\\U" in text:
            used.update(json.loads(f'"{escape}"') for escape in _found(_ESCAPES, text.lower()))

    for codes in _MARK_RANGES:
        for mark in map(chr, codes):
            if mark not in used:
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


def _found(pattern: re.Pattern[str], text: str) -> set[str]:
    """Every text that the pattern matches; none of its matches is longer than 12 characters."""
    found: set[str] = set()

    for start in range(0, len(text), _CHARS_AT_A_TIME):
        found.update(pattern.findall(text, start, start + _CHARS_AT_A_TIME + 11))

    return found


def _begins_with(texts: Sequence[str], forks: int = 0) -> str:
    """Return a pattern for the beginning of whatever begins with one of the texts, which are sorted. What they share is in it once.

    Written one after another, a thousand tokens of the same beginning would each be tried at every place of a text.
    """
    if "" in texts:
        return ""

    if forks > _MOST_FORKS:
        return f"(?:{'|'.join(map(re.escape, texts))})"

    rests: dict[str, list[str]] = {}

    for text in texts:
        rests.setdefault(text[0], []).append(text)

    return f"(?:{'|'.join(_branch(rest, forks) for rest in rests.values())})"


def _branch(texts: Sequence[str], forks: int) -> str:
    """Return a pattern for sorted texts that have at least the first character in common."""
    pairs = zip(texts[0], texts[-1], strict=False)
    shared = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return re.escape(shared) + _begins_with([text[len(shared) :] for text in texts], forks + 1)


def _marked(text: str, tokens: TokenSet, mark: str) -> str:
    cuts = tokens.cuts(text)

    if not cuts:
        return text

    return mark.join(text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True))


def _escape_of(mark: str) -> str:
    return json.dumps(mark)[1:-1]
