"""What clients are told about the end of an answer."""

import pytest

from ipc.messages import FinishReason
from prism.chat.finish_reason import openai_finish_reason


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (FinishReason.STOP, "stop"),
        (FinishReason.LENGTH, "length"),
        (FinishReason.LOOP, "length"),
        (FinishReason.CANCELLED, "length"),
    ],
)
def test_engine_reason_decides_for_plain_answers(reason: FinishReason, expected: str) -> None:
    assert openai_finish_reason(reason) == expected


@pytest.mark.parametrize("reason", list(FinishReason))
def test_stop_string_says_stop(reason: FinishReason) -> None:
    assert openai_finish_reason(reason, is_stopped=True) == "stop"


@pytest.mark.parametrize("reason", list(FinishReason))
def test_complete_calls_say_tool_calls(reason: FinishReason) -> None:
    assert openai_finish_reason(reason, has_calls=True) == "tool_calls"
    assert openai_finish_reason(reason, has_calls=True, is_stopped=True) == "tool_calls"


def test_cut_call_behind_complete_ones_says_length_only_at_a_limit() -> None:
    assert openai_finish_reason(FinishReason.LENGTH, has_calls=True, is_call_cut=True) == "length"
    assert openai_finish_reason(FinishReason.LOOP, has_calls=True, is_call_cut=True) == "length"
    assert openai_finish_reason(FinishReason.STOP, has_calls=True, is_call_cut=True) == "tool_calls"
