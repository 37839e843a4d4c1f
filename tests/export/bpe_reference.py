"""Byte-level BPE as SmolLM2 was trained with it, written out plainly: every number cut off alone, GPT-2's split, then the merges."""

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from prism.export.tokenizer_files import TokenizerSpec, byte_spelling

_CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")


class ReferenceTokenizer:
    """Encodes text as the trained tokenizer does. Does not know tokens that are matched whole; texts here hold none."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self._ids = {token: index for index, token in enumerate(spec.tokens)}
        self._rank = {tuple(merge.split(" ")): rank for rank, merge in enumerate(spec.merges)}
        self._spelling = byte_spelling()

    def encode(self, text: str) -> list[int]:
        """The ids of `text`."""
        return [self._ids[part] for word in _words(text) for part in self._merged(word)]

    def _merged(self, word: str) -> Sequence[str]:
        parts = [self._spelling[byte] for byte in word.encode()]

        while len(parts) > 1:
            ranks = [self._rank.get(pair, len(self._rank)) for pair in pairwise(parts)]
            best = ranks.index(min(ranks))

            if ranks[best] == len(self._rank):
                break

            parts[best : best + 2] = [parts[best] + parts[best + 1]]

        return parts


def _words(text: str) -> Iterator[str]:
    start = 0

    for index, character in enumerate(text):
        if _is_number(character):
            yield from _split(text[start:index])
            yield character
            start = index + 1

    yield from _split(text[start:])


def _split(text: str) -> Iterator[str]:
    at = 0

    while at < len(text):
        end = _word_end(text, at)
        yield text[at:end]
        at = end


def _word_end(text: str, at: int) -> int:
    for contraction in _CONTRACTIONS:
        if text.startswith(contraction, at):
            return at + len(contraction)

    first = at + 1 if text[at] == " " and at + 1 < len(text) and not text[at + 1].isspace() else at

    if not text[first].isspace():
        is_word = _is_letter(text[first])
        return _run_end(text, first, lambda c: not c.isspace() and _is_letter(c) == is_word)

    end = _run_end(text, at, str.isspace)

    # The last white space before a word is left to that word.
    return end if end == len(text) or end == at + 1 else end - 1


def _run_end(text: str, at: int, belongs: Callable[[str], bool]) -> int:
    while at < len(text) and belongs(text[at]):
        at += 1

    return at


def _is_letter(character: str) -> bool:
    return unicodedata.category(character).startswith("L")


def _is_number(character: str) -> bool:
    return unicodedata.category(character).startswith("N")
