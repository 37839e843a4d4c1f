"""From tokens to pieces of text, one token at a time, without ever losing or splitting text.

Pure. One detokenizer per request. Joined, the pieces of `push` and `flush` are the decoding of all tokens at once; no piece ends inside a
character. `TableDetokenizer` works from the bytes of each token; `WindowDetokenizer` serves tokenizers whose decoder we do not know.
"""

import codecs
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from gpu_worker.vocabulary import Vocabulary

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# A character is at most four bytes, so four tokens; whatever is unfinished after twice that will not be finished.
MAX_HELD_TOKENS = 8


class Detokenizer(Protocol):
    """Turns the tokens of one answer into text."""

    def push(self, token: int) -> str:
        """Return the text that this token completes; empty when it completes none."""

    def flush(self) -> str:
        """Return what is held back at the end: a character that never became whole, as U+FFFD."""


class TableDetokenizer:
    """One UTF-8 decoder over the bytes of all tokens.

    drops_leading_spaces: the answer is a text of its own and not the rest of the prompt's, so the tokenizer's leading space is dropped.
    """

    def __init__(self, vocabulary: Vocabulary, *, drops_leading_spaces: bool) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._droppable = vocabulary.leading_spaces if drops_leading_spaces else 0

    def push(self, token: int) -> str:
        return self._after_leading_spaces(self._decoder.decode(self._vocabulary.piece(token)))

    def flush(self) -> str:
        return self._after_leading_spaces(self._decoder.decode(b"", final=True))

    def _after_leading_spaces(self, text: str) -> str:
        while text and self._droppable:
            if not text.startswith(" "):
                self._droppable = 0
            else:
                self._droppable -= 1
                text = text[1:]

        return text


class WindowDetokenizer:
    """Decodes the last few tokens again for each token and returns what is new.

    The engine's decoder treats the first token of a text in its own way, so it always sees the tokens of the last piece again; a piece
    begins where a character begins, or the decoder would see nothing.

    decode: the engine's decoder. It drops whatever follows an unfinished character, so text is held back while it ends in one, and after
        MAX_HELD_TOKENS the unfinished one is given up as U+FFFD.
    shown: what tokens show that the decoder would hide (markers, added text) or must not see (silent ones): text by id.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], shown: Mapping[int, str]) -> None:
        self._decode = decode
        self._shown = shown
        self._context: list[int] = []
        self._held: list[int] = []

    def push(self, token: int) -> str:
        shown = self._shown.get(token)

        if shown == "":
            return ""

        if shown is not None:
            return self.flush() + shown

        self._held.append(token)
        text = self._new_text()

        if text and not text.endswith(REPLACEMENT):
            self._release()
            return text

        return self._give_up_first() if len(self._held) >= MAX_HELD_TOKENS else ""

    def flush(self) -> str:
        text = ""

        # One token may hide the text of those after it: never decode several unfinished ones as one.
        while self._held:
            text += self._give_up_first()

        return text

    def _new_text(self) -> str:
        before = self._decode(self._context) if self._context else ""
        after = self._decode([*self._context, *self._held])
        return after[len(before) :] if after.startswith(before) else self._decode(self._held)

    def _release(self) -> None:
        self._context, self._held = self._held, []

    def _give_up_first(self) -> str:
        """The first held token starts a character that stays unfinished: let it go as it is, and go on with the tokens after it."""
        first, *rest = self._held
        self._held = [first]
        text = self._new_text() or REPLACEMENT
        # A context that ends in an unfinished character would hide all that follows it.
        self._context, self._held = [], []
        return text + "".join(self.push(token) for token in rest)
