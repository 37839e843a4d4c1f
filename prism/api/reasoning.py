"""How much the client wants the model to think: `reasoning_effort` and `reasoning`. Pure."""

from typing import Literal, TypeAlias

import msgspec

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Reasoning(msgspec.Struct, frozen=True):
    """enabled: false switches thinking off, whatever else is said."""

    enabled: bool | None = None
    effort: Effort | None = None


def combined_effort(effort: Effort | None, reasoning: Reasoning | None) -> Effort | None:
    """Return the effort that counts, None when the client leaves it to the model.

    `reasoning_effort` wins over `reasoning.effort`, and `reasoning.enabled: false` over both. A bare `enabled: true` asks for thinking
    without saying how much: medium, as OpenRouter has it.
    """
    if reasoning is not None and reasoning.enabled is False:
        return "none"

    if effort is not None or reasoning is None:
        return effort

    if reasoning.effort is not None:
        return reasoning.effort

    return "medium" if reasoning.enabled else None
