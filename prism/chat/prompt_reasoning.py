"""How much a model is asked to think, in the words of its template.

Called by `prompt.py`; pure. Templates have switches of different names and kinds; some models have none and open their thinking by
themselves, and those are kept from it by a block of thinking that is over before it began.
"""

from collections.abc import Mapping
from types import MappingProxyType

from prism.chat.reasoning_tags import THINK, TagPair, pairs_for_template
from prism.chat.template_facts import TemplateFacts

NO_EFFORT = "none"

_SWITCHES = ("enable_thinking", "thinking", "reasoning")
_BUDGET_TOKENS: Mapping[str, int] = MappingProxyType(
    {NO_EFFORT: 0, "minimal": 512, "low": 1_024, "medium": 4_096, "high": 16_384, "xhigh": 32_768}
)
_HARMONY_TURN = "<|start|>assistant"
_HARMONY_ANSWER = "<|channel|>final<|message|>"


def effort_variables(effort: str | None, facts: TemplateFacts) -> dict[str, object]:
    """Variables for a template; none of them when no effort was asked for, so that the template's own default holds."""
    if effort is None:
        return {}

    variables: dict[str, object] = {name: effort != NO_EFFORT for name in _SWITCHES if name in facts.variables}

    if "reasoning_effort" in facts.variables:
        # Templates that know levels only print whatever they get: the lowest level comes closest to none.
        knows_none = effort != NO_EFFORT or NO_EFFORT in facts.literals
        variables["reasoning_effort"] = effort if knows_none else "low"

    if "thinking_budget" in facts.variables and effort in _BUDGET_TOKENS:
        variables["thinking_budget"] = _BUDGET_TOKENS[effort]

    return variables


def end_of_thinking(prompt: str, facts: TemplateFacts, special_tokens: frozenset[str]) -> str:
    """What must follow a prompt so that the answer begins without thinking; empty when the template has seen to it."""
    tail = prompt.rstrip()

    if tail.endswith(_HARMONY_TURN):
        return _HARMONY_ANSWER

    opened = opened_by_template(prompt, facts)

    if opened is not None:
        return ("" if prompt.endswith("\n") else "\n") + f"\n{opened.closing}\n\n"

    if any(name in facts.variables for name in (*_SWITCHES, "reasoning_effort", "thinking_budget")):
        return ""

    thinks = THINK.closing in facts.text or THINK.opening in special_tokens
    return f"{THINK.opening}\n\n{THINK.closing}\n\n" if thinks and not tail.endswith(THINK.closing) else ""


def opened_by_template(prompt: str, facts: TemplateFacts) -> TagPair | None:
    """The pair of tags whose opening is the end of the prompt, put there by the template and not by a user's words."""
    tail = prompt[-256:].rstrip()
    pairs = pairs_for_template(facts.source)
    return next((pair for pair in pairs if tail.endswith(pair.opening) and pair.opening in facts.text), None)
