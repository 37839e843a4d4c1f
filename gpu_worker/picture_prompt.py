"""A prompt with places for pictures, as the engine's processor wants it: one text. Pure; called by `eyes.py`.

The processor encodes the whole text itself, since it must find the markers and put as many tokens there as a picture takes. So the
pieces of the prompt have to become one text, and what a client typed must stay text all the same: a token of the model that occurs nowhere
in the prompt is put between two pieces, and taken out of the ids afterwards.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpu_worker.errors import RequestFault
from gpu_worker.tokenizer_files import AddedToken
from ipc.messages import RejectCode

# Processors look for tokens with names like these by themselves.
_BUSY_WORDS = ("im", "vis", "vid", "aud", "pad", "unk", "mask")


@dataclass(frozen=True, slots=True)
class PicturePrompt:
    """text: for the processor. separator: the token between two pieces; None when there is one piece only.

    tail: the pieces behind the last marker.
    """

    text: str
    separator: AddedToken | None
    tail: tuple[str, ...]


def spare_tokens(added: Iterable[AddedToken], used_ids: Iterable[int]) -> tuple[AddedToken, ...]:
    """Return the tokens that may serve as a separator. used_ids: the ones that mean something at the end or beginning of a text."""
    used = frozenset(used_ids)

    return tuple(
        token
        for token in added
        if token.is_special
        and token.token_id not in used
        and len(token.content) > 2
        and not any(word in token.content.lower() for word in _BUSY_WORDS)
    )


def picture_prompt(pieces: Sequence[str], markers: Sequence[str], spare: Sequence[AddedToken]) -> PicturePrompt:
    """Return the one text. markers: of the pictures, in order.

    Raises RequestFault when the prompt has not exactly these markers, is no proper text, or leaves no separator.
    """
    kept = [piece for piece in pieces if piece]
    _check_text(kept)
    tail = _behind_markers(kept, markers)

    for marker in set(markers):
        found = sum(piece.count(marker) for piece in kept)

        if found != markers.count(marker):
            raise _invalid(
                f"the prompt has {found} places of the kind {marker!r} for pictures, and {markers.count(marker)} pictures"
            )

    if len(kept) == 1:
        return PicturePrompt(kept[0], None, tail)

    for token in spare:
        text = token.content.join(kept)

        if text.split(token.content) == kept:
            return PicturePrompt(text, token, tail)

    raise _invalid(
        "the texts hold control tokens of the model, and it has no token left to keep them apart from its own"
    )


def without_separator(ids: Sequence[int], prompt: PicturePrompt) -> list[int]:
    """Return the ids of the prompt alone."""
    separator = prompt.separator
    return list(ids) if separator is None else [token for token in ids if token != separator.token_id]


def common_end(ids: Sequence[int], others: Sequence[int]) -> int:
    """Return with how many same tokens the two end."""
    pairs = zip(reversed(ids), reversed(others), strict=False)
    length = 0

    for one, other in pairs:
        if one != other:
            break

        length += 1

    return length


def _check_text(pieces: Sequence[str]) -> None:
    for piece in pieces:
        if "\0" in piece:
            # The engine's tokenizer would end the text there without a word.
            raise _invalid("the prompt holds a NUL character")

        try:
            piece.encode()
        except UnicodeEncodeError as error:
            raise _invalid("the prompt holds a character that has no UTF-8 form") from error


def _behind_markers(pieces: Sequence[str], markers: Sequence[str]) -> tuple[str, ...]:
    """Return what stands behind the last marker, each of them being looked for behind the one before it."""
    rest: Iterator[str] = iter(pieces)
    current = ""

    for number, marker in enumerate(markers):
        while marker not in current:
            piece = next(rest, None)

            if piece is None:
                raise _invalid(f"the prompt has {number} places for pictures, and there are {len(markers)} pictures")

            current = piece

        current = current.partition(marker)[2]

    return tuple(piece for piece in (current, *rest) if piece)


def _invalid(message: str) -> RequestFault:
    return RequestFault(RejectCode.INVALID_REQUEST, message)
