"""What a worker is doing between two of its messages, and how long that may take at most. Pure.

A call that never comes back but burns CPU looks like work from outside; only a budget ends it. So budgets are generous: they grow with
the size of the call and with what such calls took in this worker before.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from ipc.messages import Delta, FromWorker, Phase, Progress, Started
from supervisor.watch_bounds import WatchBounds

# How much of a new measurement goes into the average.
_NEW_SHARE = 0.2


class CallKind(StrEnum):
    """Kinds of calls, each with a budget of its own."""

    PREPARE = "prepare"  # start the interpreter; encode a prompt and take memory for it
    LOAD = "load"  # read the model
    LOOK = "look"  # feed the part of a prompt that has pictures in it; one call, whatever its length
    SLICE = "slice"  # feed a part of the prompt; the last one also makes the first token
    TOKEN = "token"  # make the next token


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A call that the worker is about to make. tokens: how many are fed by it at most; 1 where that has no meaning."""

    kind: CallKind
    tokens: int = 1


PREPARE = NativeCall(CallKind.PREPARE)
LOAD = NativeCall(CallKind.LOAD)
TOKEN = NativeCall(CallKind.TOKEN)


def call_after(message: FromWorker, prefill_chunk: int) -> NativeCall | None:
    """Return what the worker does after it said this; None when it does nothing that is waited for.

    prefill_chunk: most tokens of a slice, 0 means the whole prompt (see `ipc.launch_spec`).
    """
    match message:
        case Delta() | Progress(phase=Phase.DECODE):
            return TOKEN
        case Started() | Progress(phase=Phase.PICTURES):
            return PREPARE
        case Progress(phase=Phase.LOOK, total=total):
            return NativeCall(CallKind.LOOK, max(total, 1))
        case Progress(phase=Phase.IMPORT | Phase.LOAD):
            return LOAD
        case Progress(phase=Phase.PREFILL, done=done, total=total):
            left = max(total - done, 1)
            return NativeCall(CallKind.SLICE, min(left, prefill_chunk) if prefill_chunk > 0 else left)
        case _:
            return None


class CallTimes:
    """How long the calls of one worker took, and what the next one may take. Lives as long as the worker."""

    def __init__(self, bounds: WatchBounds) -> None:
        self._bounds = bounds
        self._slice_s: float | None = None
        self._slice_tokens = 1.0
        self._token_s: float | None = None

    def note(self, call: NativeCall, seconds: float) -> None:
        """Take in that a call came to its end."""
        match call.kind:
            case CallKind.SLICE if self._slice_s is None:
                self._slice_s, self._slice_tokens = seconds, float(call.tokens)
            case CallKind.SLICE:
                self._slice_s = _average(self._slice_s, seconds)
                self._slice_tokens = _average(self._slice_tokens, call.tokens)
            case CallKind.TOKEN:
                self._token_s = _average(self._token_s, seconds)
            case CallKind.PREPARE | CallKind.LOAD | CallKind.LOOK:
                pass
            case _:
                assert_never(call.kind)

    def budget_s(self, call: NativeCall) -> float:
        """Return how long this call may go on without a message, in seconds in which it had a CPU or waited for something else."""
        match call.kind:
            case CallKind.PREPARE:
                return self._bounds.prepare_budget_s
            case CallKind.LOAD:
                return self._bounds.load_budget_s
            case CallKind.SLICE:
                return self._slice_budget_s(call.tokens)
            case CallKind.LOOK:
                # Its cost goes by the pixels, which nobody here knows, so what others took tells nothing.
                return self._bounds.call_budget_s + self._bounds.unmeasured_token_s * call.tokens
            case CallKind.TOKEN:
                # Before the first token was measured, a slice stands for it: it costs no less.
                known_s = self._slice_s if self._token_s is None else self._token_s
                return max(self._bounds.call_budget_s, self._bounds.budget_factor * (known_s or 0.0))
            case _:
                assert_never(call.kind)

    def _slice_budget_s(self, tokens: int) -> float:
        if self._slice_s is None:
            return self._bounds.call_budget_s + self._bounds.unmeasured_token_s * tokens

        # A small slice is not cheaper by its tokens, since the weights are read once for each; a bigger one is dearer.
        expected_s = self._slice_s * max(1.0, tokens / self._slice_tokens)
        return max(self._bounds.call_budget_s, self._bounds.budget_factor * expected_s)


def _average(before: float | None, new: float) -> float:
    return new if before is None else before + _NEW_SHARE * (new - before)
