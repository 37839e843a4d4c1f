"""How much a model is asked to think, in the words of its template.

Called by `prompt.py`; pure. Templates have switches of different names and kinds; some models have none and open their thinking by
themselves, and those are kept from it by a block of thinking that is over before it began.
"""

from collections.abc import Mapping
from types import MappingProxyType

from prism.chat.effort_levels import NO_EFFORT, has_level_none, level_for
from prism.chat.reasoning_tags import THINK, TagPair, is_named_thinker, pairs_for_template
from prism.chat.template_facts import TemplateFacts

_SWITCHES = ("enable_thinking", "thinking", "reasoning")
# `max` is no budget at all.
_BUDGET_TOKENS: Mapping[str, int] = MappingProxyType(
    {NO_EFFORT: 0, "minimal": 1_024, "low": 1_024, "medium": 4_096, "high": 16_384, "xhigh": 16_384}
)
_HARMONY_TURN = "<|start|>assistant"
_HARMONY_ANSWER = "<|channel|>final<|message|>"


def effort_variables(effort: str | None, facts: TemplateFacts) -> dict[str, object]:
    """Variables for a template; none of them when no effort was asked for, so that the template's own default holds."""
    if effort is None:
        return {}

    variables: dict[str, object] = {name: effort != NO_EFFORT for name in _SWITCHES if name in facts.variables}

    if "reasoning_effort" in facts.variables:
        variables["reasoning_effort"] = level_for(effort, facts.literals)

    if "thinking_budget" in facts.variables and effort in _BUDGET_TOKENS:
        variables["thinking_budget"] = _BUDGET_TOKENS[effort]

    return variables


def end_of_thinking(prompt: str, facts: TemplateFacts, special_tokens: frozenset[str], model_name: str) -> str:
    """What must follow a prompt so that the answer begins without thinking; empty when the template has seen to it."""
    if prompt.rstrip().endswith(_HARMONY_TURN):
        return _HARMONY_ANSWER

    opened = opened_by_template(prompt, facts)

    if opened is not None:
        return ("" if prompt.endswith("\n") else "\n") + f"\n{opened.closing}\n\n"

    return "" if _can_switch_off(facts) else end_without_switch(prompt, facts.text, special_tokens, model_name)


def end_without_switch(prompt: str, template_text: str, special_tokens: frozenset[str], model_name: str) -> str:
    """The same for a prompt that no switch reaches. template_text: what the model's template can write; empty when it has none."""
    pair = _own_pair(template_text, special_tokens, model_name)

    if pair is None or prompt.rstrip().endswith(pair.closing):
        return ""

    return f"{pair.opening}\n\n{pair.closing}\n\n"


def opened_by_template(prompt: str, facts: TemplateFacts) -> TagPair | None:
    """The pair of tags whose opening is the end of the prompt, put there by the template and not by a user's words."""
    tail = prompt[-256:].rstrip()
    pairs = pairs_for_template(facts.source)
    return next((pair for pair in pairs if tail.endswith(pair.opening) and pair.opening in facts.text), None)


def _can_switch_off(facts: TemplateFacts) -> bool:
    """A template that takes levels only makes the model think less, which is not the same."""
    if "reasoning_effort" in facts.variables and has_level_none(facts.literals):
        return True

    return any(name in facts.variables for name in (*_SWITCHES, "thinking_budget"))


def _own_pair(template_text: str, special_tokens: frozenset[str], model_name: str) -> TagPair | None:
    """The tags in which the model thinks by itself; None when nothing says that it does."""
    pairs = [pair for pair in pairs_for_template(template_text) if not pair.opening.endswith("<|message|>")]
    known = (pair for pair in pairs if pair.opening in special_tokens or pair.closing in template_text)
    return next(known, THINK if is_named_thinker(model_name) else None)
