"""Which special tokens are shown."""

import pytest

from gpu_worker.markers import HARMONY_MARKERS, REASONING_MARKERS, TOOL_CALL_MARKERS, visible_markers
from gpu_worker.model_folder import shown_texts
from gpu_worker.tokenizer_files import AddedToken


def shown(*contents: str, is_special: bool = True, silent: tuple[int, ...] = ()) -> list[str]:
    added = [AddedToken(token_id, content, is_special) for token_id, content in enumerate(contents)]
    return list(shown_texts(added, silent).values())


@pytest.mark.parametrize("is_special", [True, False])
def test_every_marker_is_shown_special_or_not(is_special: bool) -> None:
    markers = sorted(TOOL_CALL_MARKERS | REASONING_MARKERS)
    assert shown(*markers, is_special=is_special) == markers


def test_the_brackets_of_calls_and_thinking_are_markers() -> None:
    thinking = {"<think>", "</think>", "[THINK]", "[/THINK]", "<seed:think>", "</seed:think>"}
    calls = {"<tool_call>", "</tool_call>", "<|tool_call|>", "<|/tool_call|>", "<|python_tag|>", "[TOOL_CALLS]"}
    mistral = {"[ARGS]", "[CALL_ID]"}
    deepseek = {
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>",
    }
    assert thinking | calls | mistral | deepseek <= visible_markers(())


@pytest.mark.parametrize("content", ["<|im_end|>", "<think", "<|tool|>", "<s>", "<THINK>", "<pad>", "<|end|>"])
def test_no_other_special_token_is_shown(content: str) -> None:
    assert shown(content) == [""]


def test_added_text_is_shown_unless_it_ends_or_pads() -> None:
    assert shown("<|code|>", "<eot>", is_special=False, silent=(1,)) == ["<|code|>", ""]


def test_the_brackets_of_gpt_oss_are_shown_for_gpt_oss_only() -> None:
    harmony = sorted(HARMONY_MARKERS)
    assert shown(*harmony) == harmony
    assert shown(*(marker for marker in harmony if marker != "<|channel|>")) == [""] * (len(harmony) - 1)
