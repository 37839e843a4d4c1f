"""Renders messages with a template, repairing their form for as long as the template refuses them.

Called by `prompt.py`; blocks for the rendering. All tries of one prompt share one budget.
"""

from collections.abc import Callable, Mapping, Sequence

from prism.chat.prompt_messages import (
    DATA_REPAIRS,
    STRUCTURE_REPAIRS,
    Message,
    Repair,
    content_as_parts,
    loses_question,
    loses_results,
    results_as_user,
)
from prism.chat.template import CompiledTemplate
from prism.chat.template_budget import RenderBudget
from prism.chat.template_errors import FailureKind, TemplateFailed

# What a template can lose without a word, and the form in which it may not.
_LOSSES: tuple[tuple[Callable[[Sequence[Message], str], bool], Repair], ...] = (
    (loses_results, results_as_user),
    (loses_question, content_as_parts),
)


def render_repairing(
    compiled: CompiledTemplate, messages: list[Message], variables: Mapping[str, object], budget: RenderBudget
) -> str:
    """Render; repair what the template refuses, then what it loses. Raises TemplateFailed with the first cause."""
    text = _accepted(compiled, messages, variables, budget)

    for loses, repair in _LOSSES:
        if not loses(messages, text):
            continue

        try:
            other = _accepted(compiled, repair(messages), variables, budget)
        except TemplateFailed:
            continue

        text = text if loses(messages, other) else other

    return text


def _accepted(
    compiled: CompiledTemplate, messages: list[Message], variables: Mapping[str, object], budget: RenderBudget
) -> str:
    """Render, with one repair of the messages after another while the template refuses them."""
    data, structure = list(DATA_REPAIRS), list(STRUCTURE_REPAIRS)
    first: TemplateFailed | None = None

    while True:
        try:
            return compiled.render({**variables, "messages": messages}, budget)
        except TemplateFailed as error:
            first = first or error
            in_order = (structure, data) if error.kind is FailureKind.RAISED else (data, structure)
            repaired = None if error.kind is FailureKind.LIMIT else _repaired(messages, *in_order)

        if repaired is None:
            raise first

        messages = repaired


def _repaired(messages: list[Message], *repairs: list[Repair]) -> list[Message] | None:
    """Apply the next repair that changes anything; None when there is none left."""
    for left in repairs:
        while left:
            repaired = left.pop(0)(messages)

            if repaired != messages:
                return repaired

    return None
