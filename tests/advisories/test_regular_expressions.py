"""No regular expression of ours takes longer than in proportion to its text, whatever the text is."""

import re
import time

import pytest

from tests.advisories.patterns import Attack, Pattern, all_patterns, attacks_on

# In small steps, so that an exponential pattern is found before it takes for ever; then to where a quadratic one takes 200 million steps.
LENGTHS: tuple[int, ...] = (*range(14, 100, 3), *(round(100 * 1.7**step) for step in range(11)))
# Many times what a pattern that goes through its text once needs.
BOUND_S = 0.15
PATTERNS = all_patterns()


def slow_at(used: Pattern, attack: Attack) -> int | None:
    """Return the length at which a text takes too long; None when no length does."""
    for length in LENGTHS:
        text = attack.text(length)
        content = text.encode("latin-1", "replace") if isinstance(used.pattern.pattern, bytes) else text

        # Looked at twice, since another process may have taken the caches.
        if cost_s(used, content) > BOUND_S and cost_s(used, content) > BOUND_S:
            return length

    return None


def cost_s(used: Pattern, text: "str | bytes") -> float:
    """Return the processor time of one look."""
    begun = time.thread_time()

    if used.is_searched:
        used.pattern.search(text)
    else:
        used.pattern.match(text)

    used.pattern.fullmatch(text)
    return time.thread_time() - begun


def first_slow(used: Pattern) -> tuple[Attack, int] | None:
    """Return an attack that takes too long, and at which length; None when there is none."""
    found = ((attack, slow_at(used, attack)) for attack in attacks_on(used.pattern))
    return next(((attack, length) for attack, length in found if length is not None), None)


def searched(source: "str | bytes") -> Pattern:
    return Pattern("here", re.compile(source), is_searched=True)


@pytest.mark.parametrize("used", PATTERNS, ids=lambda used: used.place)
def test_a_pattern_is_linear(used: Pattern) -> None:
    assert first_slow(used) is None


def test_the_patterns_are_found() -> None:
    assert len(PATTERNS) > 40
    assert {"prism/http/access.py", "prism/chat/tool_calls.py", "gpu_worker/fault_text.py"} <= {
        used.place.partition(":")[0] for used in PATTERNS
    }


@pytest.mark.parametrize(
    "careless",
    [
        r"(\w|a)+!",
        r"\s+$",
        r"x.*y.*z$",
        r"(.*?,){2,}\w+;",
        r"[a-z]+@",
        rb"(a|aa)+b",
        r'"([^"]|\\.)*"',
        r"(?m)^\s*(\S+) => no",
    ],
)
def test_a_careless_pattern_is_found(careless: "str | bytes") -> None:
    assert first_slow(searched(careless)) is not None


@pytest.mark.parametrize("careful", [r"[a-z]{1,64}@", r"\bx[0-9]*+y", r"^(\s*a)*b", r"\{[^{}]*\}"])
def test_a_careful_pattern_is_none(careful: str) -> None:
    assert first_slow(searched(careful)) is None
