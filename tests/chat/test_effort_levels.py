"""Which level of a template an effort becomes. The rows are the tables of chat-completions-2.txt, and levels of templates in use."""

from collections.abc import Sequence

import pytest

from prism.chat.effort_levels import level_for

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


@pytest.mark.parametrize(
    ("literals", "expected"),
    [
        # DeepSeek-V4.1 and Gemma 4, as the text has them.
        (("none", "low", "high", "xhigh", "max"), ("none", "low", "low", "high", "xhigh", "xhigh", "max")),
        (("none", "low", "medium", "high"), ("none", "low", "low", "medium", "high", "high", "high")),
        # gpt-oss: its template names the default only, and prints what it gets.
        (("medium",), ("low", "low", "low", "medium", "high", "high", "high")),
        ((), ("low", "low", "low", "medium", "high", "high", "high")),
        # Mistral Small 4 refuses all but these two.
        (("none", "high"), ("none", "high", "high", "high", "high", "high", "high")),
        # Qwen 3.8.
        (("low", "medium", "xhigh"), ("low", "low", "low", "medium", "xhigh", "xhigh", "xhigh")),
        # Templates with a special case for the deepest level.
        (("max",), ("low", "low", "low", "medium", "high", "high", "max")),
        (("high", "max"), ("high", "high", "high", "high", "high", "high", "max")),
        # All there are.
        (EFFORTS, ("none", "low", "low", "medium", "high", "xhigh", "max")),
        (("none",), ("none", "low", "low", "medium", "high", "high", "high")),
        (("minimal", "high"), ("minimal", "minimal", "minimal", "high", "high", "high", "high")),
    ],
)
def test_each_effort_is_the_nearest_level_that_the_template_has(
    literals: Sequence[str], expected: Sequence[str]
) -> None:
    assert tuple(level_for(effort, literals) for effort in EFFORTS) == tuple(expected)


def test_xhigh_is_high_and_minimal_is_low_wherever_a_template_has_no_other_word() -> None:
    for literals in (("low", "high"), ("low", "medium", "high"), ("medium",), ("low", "high", "xhigh", "max")):
        assert level_for("minimal", literals) == level_for("low", literals)
        assert level_for("xhigh", literals) == level_for("high", literals)
