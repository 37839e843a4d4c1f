"""Which of the levels that a template has a client's effort means. Called by `prompt_reasoning.py`; pure.

Clients may name six levels beside `none`; models were trained with two to four, and a template that is given another one prints it, as a
word the model never saw, or refuses the whole request. So each effort becomes the nearest level that the template itself speaks of.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType

NO_EFFORT = "none"

# What templates that print whatever they get were trained with, such as gpt-oss's.
_USUAL_LEVELS = frozenset({"low", "medium", "high"})
_LEVELS = _USUAL_LEVELS | {"minimal", "xhigh", "max"}
# Best first. `minimal` is the same as `low`, and `xhigh` the same as `high` where a model does not tell them apart.
_NEAREST: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "low": ("low", "minimal", "medium", "high", "xhigh", "max"),
        "medium": ("medium", "high", "low", "xhigh", "max", "minimal"),
        "high": ("high", "xhigh", "max", "medium", "low", "minimal"),
        "xhigh": ("xhigh", "high", "max", "medium", "low", "minimal"),
        "max": ("max", "xhigh", "high", "medium", "low", "minimal"),
    }
)


def has_level_none(literals: Collection[str]) -> bool:
    """Say whether a template that takes levels can be told not to think. literals: its string constants."""
    return NO_EFFORT in literals


def level_for(effort: str, literals: Collection[str]) -> str:
    """Return the level for a template with these string constants. No effort is the lowest level where it does not know none."""
    if effort == NO_EFFORT and has_level_none(literals):
        return NO_EFFORT

    levels = _levels_of(literals)
    wanted = "low" if effort in (NO_EFFORT, "minimal") else effort

    # Levels low, high, xhigh, as DeepSeek's models have: what lies in the middle is called high there.
    if wanted == "high" and "medium" not in levels:
        wanted = "xhigh"

    return next(level for level in _NEAREST[wanted] if level in levels)


def _levels_of(literals: Collection[str]) -> frozenset[str]:
    named = _LEVELS.intersection(literals)
    # One alone is a default or a special case, not the list of all.
    is_list = len(named) + has_level_none(literals) > 1
    return named if is_list and named else named | _USUAL_LEVELS
