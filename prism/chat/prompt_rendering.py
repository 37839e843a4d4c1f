"""Renders messages with a template, repairing their form for as long as the template refuses them.

Called by `prompt.py`; blocks for the rendering. All tries of one prompt share one budget.
"""

from collections.abc import Mapping

from prism.chat.prompt_messages import DATA_REPAIRS, STRUCTURE_REPAIRS, Message, Repair, loses_results, results_as_user
from prism.chat.template import CompiledTemplate
from prism.chat.template_budget import RenderBudget
from prism.chat.template_errors import FailureKind, TemplateFailed


def render_repairing(
    compiled: CompiledTemplate, messages: list[Message], variables: Mapping[str, object], budget: RenderBudget
) -> str:
    """Render, with one repair of the messages after another while the template refuses them. Raises the first failure."""
    data, structure = list(DATA_REPAIRS), list(STRUCTURE_REPAIRS)
    first: TemplateFailed | None = None

    while True:
        try:
            text = compiled.render({**variables, "messages": messages}, budget)
        except TemplateFailed as error:
            first = first or error

            if error.kind is FailureKind.LIMIT:
                raise

            repaired = _repaired(
                messages, *((structure, data) if error.kind is FailureKind.RAISED else (data, structure))
            )
        else:
            if results_as_user not in structure or not loses_results(messages, text):
                return text

            structure.remove(results_as_user)
            repaired = results_as_user(messages)

        if repaired is None:
            raise first or TemplateFailed(FailureKind.BROKE, "no repair is left")

        messages = repaired


def _repaired(messages: list[Message], *repairs: list[Repair]) -> list[Message] | None:
    """Apply the next repair that changes anything; None when there is none left."""
    for left in repairs:
        while left:
            repaired = left.pop(0)(messages)

            if repaired != messages:
                return repaired

    return None
