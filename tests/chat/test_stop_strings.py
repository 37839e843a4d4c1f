"""Stop strings: where the text is cut, what is held back, and that the cost is linear."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism.chat.stop_strings import StopMatcher

SMALL_TEXT = st.text(alphabet="ab<\n", max_size=40)
STOPS = st.lists(st.text(alphabet="ab<\n", min_size=1, max_size=6), max_size=4)


def run(pieces: list[str], stops: list[str]) -> tuple[str, bool]:
    matcher = StopMatcher(stops)
    text = "".join([matcher.feed(piece) for piece in pieces]) + matcher.finish()
    return text, matcher.is_stopped


def cut(text: str, stops: list[str]) -> tuple[str, bool]:
    """What the answer must be, said the slow way."""
    starts = [start for stop in stops if (start := text.find(stop)) >= 0]
    return (text[: min(starts)], True) if starts else (text, False)


@given(pieces=st.lists(SMALL_TEXT, max_size=8), stops=STOPS)
@settings(deadline=None)
def test_any_split_of_any_text_is_cut_like_the_whole(pieces: list[str], stops: list[str]) -> None:
    assert run(pieces, stops) == cut("".join(pieces), stops)


@given(text=SMALL_TEXT, stops=STOPS)
@settings(deadline=None)
def test_single_characters_are_cut_like_the_whole(text: str, stops: list[str]) -> None:
    assert run(list(text), stops) == cut(text, stops)


@given(text=SMALL_TEXT, stops=STOPS)
@settings(deadline=None)
def test_nothing_is_held_that_cannot_become_a_match(text: str, stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    released = "".join([matcher.feed(character) for character in text])

    if matcher.is_stopped or any(stop in text for stop in stops):
        return

    longest = max((n for stop in stops for n in range(len(stop)) if text.endswith(stop[:n])), default=0)
    assert len(text) - len(released) == longest


def test_stop_string_over_two_pieces_does_not_leak() -> None:
    """Case 71: 'own fox' inside 'The quick brown fox'. Case 74: over two tokens."""
    assert run(["The quick br", "own", " fox", " jumps"], ["own fox"]) == ("The quick br", True)


def test_held_text_is_flushed_when_the_text_ends() -> None:
    """Case 73: text that only begins like a stop string must not be lost."""
    assert run(["one\n", "\nUse"], ["\n\nUser:"]) == ("one\n\nUse", False)


def test_earliest_of_several_wins() -> None:
    assert run(["a END b STOP c"], ["STOP", "END"]) == ("a ", True)


def test_longer_stop_that_began_earlier_wins_over_a_finished_one() -> None:
    assert run(["xab", "cd"], ["abcd", "bc"]) == ("x", True)
    assert run(["xab", "ce"], ["abcd", "bc"]) == ("xa", True)


def test_match_is_known_at_its_last_character() -> None:
    matcher = StopMatcher(["END"])
    assert matcher.feed("okEN") == "ok"
    assert not matcher.is_stopped
    assert matcher.feed("D tail") == ""
    assert matcher.is_stopped
    assert matcher.feed("more") == ""
    assert matcher.finish() == ""


def test_text_passes_at_once_without_stop_strings() -> None:
    matcher = StopMatcher([])
    assert matcher.feed("any text") == "any text"
    assert matcher.finish() == ""


def test_empty_stop_string_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        StopMatcher(["a", ""])


def seconds(length: int) -> float:
    matcher = StopMatcher(["a" * 255 + "b", "a" * 200 + "c" + "a" * 55])
    begin = time.process_time()

    for _ in range(length):
        matcher.feed("a")

    matcher.finish()
    return time.process_time() - begin


def test_cost_grows_linearly_with_stop_strings_that_almost_match() -> None:
    seconds(1_000)
    short = min(seconds(4_000) for _ in range(3))
    long = min(seconds(32_000) for _ in range(2))
    assert long / short < 20
