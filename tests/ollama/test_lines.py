"""Bytes in pieces become lines, however they were cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.ollama.errors import BadDaemonAnswer
from prism.ollama.lines import LineSplitter

TEXTS = st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])), max_size=6)


@given(TEXTS, st.lists(st.integers(0, 60)))
def test_any_cut_gives_the_same_lines(texts: list[str], cuts: list[int]) -> None:
    whole = "".join(f"{text}\n" for text in texts).encode()
    splitter = LineSplitter(10_000)
    lines, begin = [], 0

    for end in [*sorted(min(cut, len(whole)) for cut in cuts), len(whole)]:
        lines += splitter.feed(whole[begin:end])
        begin = end

    assert lines + splitter.finish() == [line for line in whole.split(b"\n") if line.strip()]


def test_a_last_line_may_lack_its_end() -> None:
    splitter = LineSplitter(10)
    assert splitter.feed(b"a\nb") == [b"a"]
    assert splitter.finish() == [b"b"]
    assert splitter.finish() == []


@pytest.mark.parametrize(
    "pieces", [[b"x" * 11], [b"x" * 6, b"x" * 6], [b"a\n" + b"x" * 11 + b"\n", b""], [b"x" * 9, b"xx\n"]]
)
def test_a_giant_line_is_refused_before_it_is_whole(pieces: list[bytes]) -> None:
    splitter = LineSplitter(10)

    for piece in pieces[:-1]:
        assert splitter.feed(piece) in ([], [b"a"])

    with pytest.raises(BadDaemonAnswer, match="more than 10 bytes"):
        splitter.feed(pieces[-1])
