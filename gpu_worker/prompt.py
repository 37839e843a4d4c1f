"""From the pieces of a rendered prompt to token ids. Pure: the engine's tokenizer comes in as a function.

Each piece is encoded by itself, so that a control token's text which a client typed stays text when the border of two pieces runs through
it. Encoding by itself must leave no other trace: no BOS or EOS in the middle, no space that nobody wrote. A `PromptEncoder` finds out how
the tokenizer behaves by asking it, once while loading, because the engine's versions differ from each other and from what the files say.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from gpu_worker.errors import RequestFault
from ipc.messages import RejectCode

Encode = Callable[[str], list[int]]

# Encoded before a piece and cut off again. A line break joins with no letter, and every vocabulary has it.
_ANCHOR = "\n"
_PROBE = "a"


@dataclass(frozen=True, slots=True)
class PromptRules:
    """bos_id: None when the model has no BOS. wants_bos: a prompt begins with it even when its text does not.

    added_ids: ids of the tokens outside the model's own vocabulary; after one of them a new text begins.
    """

    bos_id: int | None
    eos_ids: Collection[int]
    added_ids: Collection[int]
    wants_bos: bool


class PromptEncoder:
    """Encodes prompts for one model."""

    def __init__(self, encode: Encode, rules: PromptRules) -> None:
        self._encode_raw = encode
        self._rules = rules
        probe = encode(_PROBE)
        self._adds_bos = rules.bos_id is not None and probe[:1] == [rules.bos_id]
        self._adds_eos = bool(probe) and probe[-1] in rules.eos_ids
        self._anchor = self._encode_plain(_ANCHOR)
        self._adds_space = self._encode_anchored(_PROBE) != self._encode_plain(_PROBE)

    def encode(self, pieces: Sequence[str]) -> list[int]:
        """Return the ids of the whole prompt. Raises RequestFault when the prompt is empty or is no proper text."""
        ids: list[int] = []

        for piece in pieces:
            if piece:
                ids += self._encode_piece(piece, ids[-1] if ids else None)

        if not ids:
            raise RequestFault(RejectCode.INVALID_REQUEST, "the prompt is empty")

        return self._with_one_bos(ids)

    def with_one_frame(self, ids: list[int]) -> list[int]:
        """Return the ids of a whole prompt that somebody else encoded, with BOS and EOS where `encode` has them."""
        return self._with_one_bos(self._without_own_frame(ids))

    def _encode_piece(self, piece: str, previous: int | None) -> list[int]:
        if "\0" in piece:
            # The engine's tokenizer would end the text there without a word.
            raise RequestFault(RejectCode.INVALID_REQUEST, "the prompt holds a NUL character")

        goes_on = previous is not None and previous not in self._rules.added_ids

        try:
            return self._encode_anchored(piece) if goes_on and self._adds_space else self._encode_plain(piece)
        except (TypeError, ValueError) as error:
            raise RequestFault(
                RejectCode.INVALID_REQUEST, "the prompt holds a character that has no UTF-8 form"
            ) from error

    def _encode_plain(self, text: str) -> list[int]:
        """Return the ids of the text alone, without the BOS and EOS that the tokenizer puts round every text."""
        ids = self._encode_raw(text)

        if min(ids, default=0) < 0:
            # The engine's word for "no such token"; the graph would read it as the last row of its table.
            raise RequestFault(
                RejectCode.INVALID_REQUEST, "the model's tokenizer has no token for a part of the prompt"
            )

        return self._without_own_frame(ids)

    def _without_own_frame(self, ids: list[int]) -> list[int]:
        if self._adds_bos and ids and ids[0] == self._rules.bos_id:
            ids = ids[1:]

        if self._adds_eos and ids and ids[-1] in self._rules.eos_ids:
            ids = ids[:-1]

        return ids

    def _encode_anchored(self, text: str) -> list[int]:
        """Return the ids of a text that goes on after other text: no space before it that it does not have."""
        ids = self._encode_plain(_ANCHOR + text)
        length = len(self._anchor)
        # The anchor grew together with the text; then there is no telling them apart.
        return ids[length:] if ids[:length] == self._anchor else self._encode_plain(text)

    def _with_one_bos(self, ids: list[int]) -> list[int]:
        bos_id = self._rules.bos_id

        if bos_id is None:
            return ids

        count = 0

        while count < len(ids) and ids[count] == bos_id:
            count += 1

        if count == 0:
            return [bos_id, *ids] if self._rules.wants_bos or self._adds_bos else ids

        return ids[count - 1 :]
