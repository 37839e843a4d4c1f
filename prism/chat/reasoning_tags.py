"""The tags between which models think, and which of them to look for in the answers of a model.

The list comes from the chat templates that models are shipped with. Tags that people also ask for in ordinary prompts (`<thinking>`,
`<reasoning>`) count only for a model whose own template speaks of them.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TagPair:
    """One way to mark thinking.

    opening, closing: the literal tags; both are dropped from the answer.
    answer_openings: markup that may stand before the answer proper, with or without thinking; dropped too.
    """

    opening: str
    closing: str
    answer_openings: tuple[str, ...] = ()


THINK = TagPair("<think>", "</think>")  # DeepSeek R1, Qwen 3, QwQ, GLM 4.5, SmolLM 3, Granite 3.2, Nemotron
_MAGISTRAL = TagPair("[THINK]", "[/THINK]")
_COMMAND_A = TagPair("<|START_THINKING|>", "<|END_THINKING|>", ("<|START_RESPONSE|>",))
_SEED_OSS = TagPair("<seed:think>", "</seed:think>")
_GEMMA_4 = TagPair("<|channel>thought", "<channel|>")
_GPT_OSS = TagPair("<|channel|>analysis<|message|>", "<|end|>", ("<|channel|>final<|message|>",))
_GPT_OSS_LATER = TagPair(
    "<|start|>assistant<|channel|>analysis<|message|>",
    "<|end|>",
    ("<|start|>assistant<|channel|>final<|message|>",),
)
_THINKING = TagPair("<thinking>", "</thinking>")
_THOUGHT = TagPair("<thought>", "</thought>")
_REASONING = TagPair("<reasoning>", "</reasoning>")

DEFAULT_PAIRS = (THINK, _MAGISTRAL, _COMMAND_A, _SEED_OSS, _GEMMA_4, _GPT_OSS, _GPT_OSS_LATER)
_ONLY_IF_IN_TEMPLATE = (_THINKING, _THOUGHT, _REASONING)
# Models whose templates say nothing about thinking, such as Phi-4-mini-reasoning, but whose names do.
_NAMES_OF_THINKERS = frozenset({"reasoning", "reasoner", "thinking", "r1", "qwq"})
_NAMES_OF_OTHERS = frozenset({"no", "non", "nonthinking", "nonreasoning"})


def is_named_thinker(model_name: str) -> bool:
    """Say whether a name is that of a model which thinks; where nothing else is known it does so in the tags of THINK."""
    words = set(re.split(r"[^a-z0-9]+", model_name.lower()))
    return not words.isdisjoint(_NAMES_OF_THINKERS) and words.isdisjoint(_NAMES_OF_OTHERS)


def pairs_for_template(template_source: str | None) -> tuple[TagPair, ...]:
    """The pairs to look for in the answers of a model with this chat template (None when it has none)."""
    if template_source is None:
        return DEFAULT_PAIRS

    spoken_of = (pair for pair in _ONLY_IF_IN_TEMPLATE if pair.opening in template_source)
    return (*DEFAULT_PAIRS, *spoken_of)
