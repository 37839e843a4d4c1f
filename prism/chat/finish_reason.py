"""Why an answer ended, in the words of the OpenAI API. Pure; used by the handlers of completions when a generation is over."""

from typing import Literal, TypeAlias, assert_never

from ipc.messages import FinishReason

OpenAiFinishReason: TypeAlias = Literal["stop", "length", "tool_calls"]


def openai_finish_reason(
    reason: FinishReason, *, is_stopped: bool = False, has_calls: bool = False, is_call_cut: bool = False
) -> OpenAiFinishReason:
    """The `finish_reason` to send.

    is_stopped: a stop string matched. It wins over the engine's word: the worker may have reached its limit before the cancel reached it.
    has_calls, is_call_cut: the answer holds calls; its text ends in the middle of another one. Calls that are all complete are worth
        running even if the limit cut words behind them; a cut one means that the client lacks a call, so that it has to hear `length`.
    """
    is_incomplete = _is_incomplete(reason) and not is_stopped

    if has_calls and not (is_incomplete and is_call_cut):
        return "tool_calls"

    return "length" if is_incomplete else "stop"


def _is_incomplete(reason: FinishReason) -> bool:
    match reason:
        case FinishReason.STOP:
            return False

        case FinishReason.LENGTH | FinishReason.LOOP | FinishReason.CANCELLED:
            # Cancelled without a stop string: a drain ran out of patience. The text is as unfinished as at a limit.
            return True

        case _:
            assert_never(reason)
