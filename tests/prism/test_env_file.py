"""The format of an env file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.env_file import parse_env_file


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("PRISM_X=plain", "plain"),
        ("  PRISM_X = spaced out  ", "spaced out"),
        ("export PRISM_X=shell", "shell"),
        ("PRISM_X=", ""),
        ("PRISM_X=a=b", "a=b"),
        ("PRISM_X=a # comment", "a"),
        ("PRISM_X=# comment", ""),
        ("PRISM_X=a#b", "a#b"),
        ('PRISM_X=" kept # here " # comment', " kept # here "),
        ("PRISM_X='single \" inside'", 'single " inside'),
        ("PRISM_X='unterminated # rest", "unterminated # rest"),
    ],
)
def test_a_line_gives_a_value(line: str, value: str) -> None:
    assert parse_env_file(line) == {"PRISM_X": value}


@pytest.mark.parametrize("line", ["", "   ", "# PRISM_X=1", "  # PRISM_X=1", "PRISM_X", "just words"])
def test_a_line_says_nothing(line: str) -> None:
    assert parse_env_file(line) == {}


def test_the_last_line_of_a_name_wins() -> None:
    assert parse_env_file("A=1\r\nB=2\nA=3\n") == {"A": "3", "B": "2"}


@given(st.text())
def test_no_text_makes_it_fail(text: str) -> None:
    parse_env_file(text)


@given(st.text(st.characters(exclude_characters="'", exclude_categories=("Cc", "Cs", "Zl", "Zp"))))
def test_single_quotes_keep_every_value(value: str) -> None:
    assert parse_env_file(f"NAME='{value}'") == {"NAME": value}
