"""Text comes whole and in order, whatever the tokens are."""

import codecs
import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_worker.detokenizer import (
    MAX_HELD_TOKENS,
    REPLACEMENT,
    Detokenizer,
    TableDetokenizer,
    WindowDetokenizer,
)
from gpu_worker.vocabulary import Vocabulary

# Pieces that cut characters in every way, text, spaces, and tokens without text.
PIECES = (
    b"a",
    b" b",
    b" ",
    b"",
    b"\xe2",
    b"\x82",
    b"\xac",
    b"\xf0\x9f",
    b"\x98\x80",
    b"\x80x",
    b"\xff",
    b"\xc3",
    b"\xa9\xe2\x82",
    "€".encode(),
    b"<think>",
    b"\0",
    b"\xef\xbf\xbd",
)


def vocabulary_of(pieces: Sequence[bytes], leading_spaces: int = 0) -> Vocabulary:
    tokens = {token_id: piece.decode("latin-1") for token_id, piece in enumerate(pieces)}
    return Vocabulary(tokens, lambda token: token.encode("latin-1"), {}, leading_spaces)


VOCABULARY = vocabulary_of(PIECES)
ids = st.lists(st.integers(0, len(PIECES) + 1), max_size=40)


def pieces_of(detokenizer: Detokenizer, tokens: Sequence[int]) -> list[str]:
    pushed = [detokenizer.push(token) for token in tokens]
    return [piece for piece in [*pushed, detokenizer.flush()] if piece]


def whole(tokens: Sequence[int], pieces: Sequence[bytes] = PIECES) -> str:
    return b"".join(pieces[token] for token in tokens if token < len(pieces)).decode(errors="replace")


@given(ids)
def test_joined_pieces_are_the_decoding_of_the_whole(tokens: list[int]) -> None:
    assert "".join(pieces_of(TableDetokenizer(VOCABULARY, drops_leading_spaces=False), tokens)) == whole(tokens)


@given(ids)
def test_no_piece_ends_inside_a_character(tokens: list[int]) -> None:
    for piece in pieces_of(TableDetokenizer(VOCABULARY, drops_leading_spaces=False), tokens):
        assert piece.encode().decode() == piece


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.data())
def test_text_cut_anywhere_comes_back_without_replacements(text: str, data: st.DataObject) -> None:
    encoded = text.encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(encoded)), max_size=10)) | {0, len(encoded)})
    parts = tuple(encoded[first:last] for first, last in itertools.pairwise(cuts))
    detokenizer = TableDetokenizer(vocabulary_of(parts), drops_leading_spaces=True)
    assert "".join(pieces_of(detokenizer, range(len(parts)))) == text


@given(ids)
def test_at_most_three_bytes_are_held_back(tokens: list[int]) -> None:
    detokenizer = TableDetokenizer(VOCABULARY, drops_leading_spaces=False)
    seen = ""

    for count, token in enumerate(tokens, start=1):
        seen += detokenizer.push(token)
        fed = b"".join(PIECES[t] for t in tokens[:count] if t < len(PIECES))
        assert seen == codecs.getincrementaldecoder("utf-8")(errors="replace").decode(fed)


def test_text_after_an_unfinished_character_is_not_lost() -> None:
    assert pieces_of(TableDetokenizer(VOCABULARY, drops_leading_spaces=False), [4, 0, 1]) == [f"{REPLACEMENT}a", " b"]


def test_an_unfinished_character_at_the_end_is_marked() -> None:
    assert pieces_of(TableDetokenizer(VOCABULARY, drops_leading_spaces=False), [0, 7]) == ["a", REPLACEMENT]


SPACED = vocabulary_of((b" Hello", b" ", b"", b"  two", b"x"), leading_spaces=1)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [([0, 0], "Hello Hello"), ([1, 0], " Hello"), ([2, 0], "Hello"), ([3], " two"), ([4, 0], "x Hello"), ([1], "")],
)
def test_an_answer_of_its_own_loses_the_tokenizers_leading_space_only(tokens: list[int], text: str) -> None:
    assert "".join(pieces_of(TableDetokenizer(SPACED, drops_leading_spaces=True), tokens)) == text


def test_an_answer_that_goes_on_with_the_prompt_keeps_its_space() -> None:
    assert pieces_of(TableDetokenizer(SPACED, drops_leading_spaces=False), [0]) == [" Hello"]


# The window works through a foreign decoder, which drops whatever follows an unfinished character, as the engine's does.
def engine_decode(tokens: Sequence[int]) -> str:
    data = b"".join(PIECES[token] for token in tokens if token < len(PIECES))
    decoder = codecs.getincrementaldecoder("utf-8")(errors="strict")
    text = ""

    for place in range(len(data)):
        try:
            text += decoder.decode(data[place : place + 1])
        except UnicodeDecodeError:
            return text + REPLACEMENT

    return text + (REPLACEMENT if decoder.getstate()[0] else "")


SHOWN = {3: "", 14: "<think>"}
# Tokens whose text the foreign decoder can show at all: none here holds the end of one character and the beginning of another.
readable = st.lists(st.sampled_from([0, 1, 2, 3, 4, 5, 6, 11, 13, 14]), max_size=40)


def collapsed(text: str) -> str:
    while REPLACEMENT * 2 in text:
        text = text.replace(REPLACEMENT * 2, REPLACEMENT)

    return text


@given(readable)
def test_the_window_loses_no_text(tokens: list[int]) -> None:
    found = "".join(pieces_of(WindowDetokenizer(engine_decode, SHOWN), tokens))
    assert collapsed(found) == collapsed(whole(tokens))


@given(st.lists(st.sampled_from([0, 1, 13, 7, 8]), max_size=40))
def test_the_window_holds_text_for_a_bounded_number_of_tokens(tokens: list[int]) -> None:
    detokenizer = WindowDetokenizer(engine_decode, SHOWN)
    silent = 0

    for token in tokens:
        silent = 0 if detokenizer.push(token) else silent + 1
        assert silent < MAX_HELD_TOKENS


def test_the_window_sends_a_character_over_several_tokens_whole() -> None:
    assert pieces_of(WindowDetokenizer(engine_decode, SHOWN), [0, 4, 5, 6, 0]) == ["a", "€", "a"]


def test_the_window_shows_markers_once_and_hides_silent_tokens() -> None:
    assert pieces_of(WindowDetokenizer(engine_decode, SHOWN), [14, 3, 0, 14]) == ["<think>", "a", "<think>"]


def test_the_window_flushes_what_is_held_before_a_marker() -> None:
    assert pieces_of(WindowDetokenizer(engine_decode, SHOWN), [4, 14]) == [f"{REPLACEMENT}<think>"]


def test_the_window_asks_for_a_bounded_number_of_tokens() -> None:
    longest = 0

    def measured(tokens: Sequence[int]) -> str:
        nonlocal longest
        longest = max(longest, len(tokens))
        return engine_decode(tokens)

    pieces_of(WindowDetokenizer(measured, SHOWN), [0, 1, 4, 4, 13, 7] * 100)
    assert longest <= 2 * MAX_HELD_TOKENS


def test_the_window_decodes_the_first_token_as_part_of_a_text() -> None:
    """A decoder that drops the space of a text's first token must not drop it of every token."""

    def dropping(tokens: Sequence[int]) -> str:
        return whole(tokens).removeprefix(" ")

    assert "".join(pieces_of(WindowDetokenizer(dropping, {}), [1, 1, 0, 1])) == "b ba b"
