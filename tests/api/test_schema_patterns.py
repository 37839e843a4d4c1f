"""Patterns of schemas: what is passed on, narrowed, or refused."""

import re

import pytest

from prism.api.schema_patterns import MAX_PATTERN_CHARS, PatternUnsupported, compiler_pattern

PLAIN = r"[^\x00-\x08\x0b\x0c\x0e-\x1f]"


@pytest.mark.parametrize(
    ("written", "passed_on"),
    [
        (r"^a{1,3}(?:b|c)?$", r"^a{1,3}(?:b|c)?$"),
        (r"^\d+\.\w$", "^[0-9]+\\.[0-9A-Za-z_]$"),
        (r"\D", rf"[[^\p{{Nd}}]&&{PLAIN}]"),
        (r"\W", rf"[[^\p{{L}}\p{{M}}\p{{N}}_]&&{PLAIN}]"),
        (r"[^\"\\]", rf'[[^"\\]&&{PLAIN}]'),
        (r"[\W]", rf"[[[^\p{{L}}\p{{M}}\p{{N}}_]]&&{PLAIN}]"),
        (r"[^\W]", rf"[[^[^0-9A-Za-z_]]&&{PLAIN}]"),
        (r"[^\d]", rf"[[^\p{{Nd}}]&&{PLAIN}]"),
        # What Rust takes for operators of sets are characters to the others.
        (r"[a&&b]", rf"[[a\&\&b]&&{PLAIN}]"),
        (r"[[]", rf"[[\[]&&{PLAIN}]"),
        (r"\/\u0041\x42", r"/\x{41}\x{42}"),
        (r"\p{L}", rf"[\p{{L}}&&{PLAIN}]"),
        (r"[\b]", rf"[[\x{{8}}]&&{PLAIN}]"),
    ],
)
def test_a_pattern_in_the_words_of_the_compiler(written: str, passed_on: str) -> None:
    assert compiler_pattern(written) == passed_on


@pytest.mark.parametrize(
    ("written", "blamed"),
    [
        ("(?=a)", "look-ahead"),
        ("(?!a)", "look-ahead"),
        ("(?<=a)b", "look-behind"),
        ("(?<!a)b", "look-behind"),
        (r"\bword", r"'\b'"),
        (r"(a)\1", r"'\1'"),
        (r"\k<n>", r"'\k'"),
        ("[ab", "does not end"),
        ("[]", "empty class"),
        ("a\\", "in the middle"),
        (r"\ud800", "no character"),
        (r"\xZZ", "no character"),
        (r"\u{110000}", "no character"),
        (r"\p", "in braces"),
        ("a" * (MAX_PATTERN_CHARS + 1), "longer than"),
    ],
)
def test_what_cannot_be_enforced_is_named(written: str, blamed: str) -> None:
    with pytest.raises(PatternUnsupported, match=re.escape(blamed)):
        compiler_pattern(written)
