"""The special tokens whose text the front must see. Pure data; read by `model_folder.py` when a model is loaded.

A special token makes no text: turn ends and padding are no part of an answer. These are the exceptions. They are the brackets that
models put round tool calls and round their thinking, and without them a call is an unmarked blob of JSON and thinking runs into the
answer. Exactly these are shown, once each; every other special token stays silent.
"""

from collections.abc import Collection
from typing import Final

TOOL_CALL_MARKERS: Final = frozenset(
    {
        # Hermes, Qwen, Granite, SmolLM 3; Seed-OSS
        *("<tool_call>", "</tool_call>", "<seed:tool_call>", "</seed:tool_call>"),
        # Phi-4-mini; LFM 2
        *("<|tool_call|>", "<|/tool_call|>", "<|tool_call_start|>", "<|tool_call_end|>"),
        # Mistral
        *("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
        # Llama 3 and 4
        *("<|python_tag|>", "<|python_start|>", "<|python_end|>"),
        # DeepSeek
        *(
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁calls▁end｜>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁call▁end｜>",
            "<｜tool▁sep｜>",
        ),
        # Command A
        *("<|START_ACTION|>", "<|END_ACTION|>"),
    }
)

REASONING_MARKERS: Final = frozenset(
    {
        *("<think>", "</think>", "<thinking>", "</thinking>", "<thought>", "</thought>"),
        *("<reasoning>", "</reasoning>", "<seed:think>", "</seed:think>", "[THINK]", "[/THINK]"),
        *("<|begin_of_thought|>", "<|end_of_thought|>", "<|begin_of_solution|>", "<|end_of_solution|>"),
        *("<|START_THINKING|>", "<|END_THINKING|>"),
        # Gemma 4, which names the channel in text behind the first of the two
        *("<|channel>", "<channel|>"),
    }
)

_VISIBLE_MARKERS: Final = TOOL_CALL_MARKERS | REASONING_MARKERS

# gpt-oss brackets everything, thinking, calls and answer, with tokens of these names. Other models end their turns with tokens that are
# called the same, so they are markers only beside the one that no other model has.
HARMONY_MARKERS: Final = frozenset({"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>"})
_HARMONY_SIGN: Final = "<|channel|>"


def visible_markers(contents: Collection[str]) -> frozenset[str]:
    """Return the markers of a tokenizer whose added tokens have these texts."""
    return _VISIBLE_MARKERS | HARMONY_MARKERS if _HARMONY_SIGN in contents else _VISIBLE_MARKERS
