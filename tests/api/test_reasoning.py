"""Precedence of the two ways to say how much to think."""

import pytest

from prism.api.reasoning import Effort, Reasoning, combined_effort


@pytest.mark.parametrize(
    ("effort", "reasoning", "expected"),
    [
        (None, None, None),
        ("high", None, "high"),
        (None, Reasoning(), None),
        (None, Reasoning(effort="low"), "low"),
        ("high", Reasoning(effort="low"), "high"),
        ("high", Reasoning(enabled=True, effort="low"), "high"),
        ("high", Reasoning(enabled=False), "none"),
        ("high", Reasoning(enabled=False, effort="max"), "none"),
        (None, Reasoning(enabled=False), "none"),
        (None, Reasoning(enabled=True), "medium"),
        (None, Reasoning(enabled=True, effort="xhigh"), "xhigh"),
        ("none", Reasoning(enabled=True), "none"),
    ],
)
def test_precedence(effort: Effort | None, reasoning: Reasoning | None, expected: Effort | None) -> None:
    assert combined_effort(effort, reasoning) == expected
