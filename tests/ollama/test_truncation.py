"""Whether a prompt was cut is told from counts that no tokenizer could make of the whole."""

import pytest

from prism.ollama.truncation import least_tokens, looks_cut


@pytest.mark.parametrize(
    ("text", "least"),
    [("", 0), ("one two  three\nfour", 4), (" " * 1000, 0), ("-" * 1000, 1), ("天" * 400, 100), ("ein Über-Wort", 2)],
)
def test_texts_have_as_many_tokens_at_the_least(text: str, least: int) -> None:
    assert least_tokens([text]) == least


def test_texts_are_counted_together() -> None:
    assert least_tokens(["a b", "c"]) == 3


@pytest.mark.parametrize(
    ("least", "prompt_tokens", "is_cut"),
    [
        (5000, 4096, True),
        (5000, 2050, True),
        (5000, 5001, False),
        (5000, 6600, False),
        (5000, 4600, False),
        (5000, None, False),
        (100, 10, False),
    ],
)
def test_a_prompt_is_cut_if_too_little_of_it_was_read(least: int, prompt_tokens: int | None, is_cut: bool) -> None:
    assert looks_cut(least, prompt_tokens) is is_cut
