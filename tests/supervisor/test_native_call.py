"""What a worker does between two messages, and how long it may."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipc.messages import Delta, Finished, FinishReason, FromWorker, Hello, Phase, Progress, Started
from supervisor.native_call import LOAD, PREPARE, TOKEN, CallKind, CallTimes, NativeCall, call_after
from supervisor.watch_bounds import WatchBounds

_SECONDS = st.floats(min_value=0, max_value=10_000)
_TOKENS = st.integers(min_value=1, max_value=1_000_000)
_FINISHED = Finished(
    request_id=1,
    reason=FinishReason.STOP,
    prompt_tokens=1,
    completion_tokens=1,
    cached_tokens=0,
    ttft_sec=0.0,
    decode_tok_per_sec=0.0,
)


def _slice(done: int, total: int, chunk: int) -> NativeCall | None:
    return call_after(Progress(phase=Phase.PREFILL, request_id=1, done=done, total=total), chunk)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        (Progress(phase=Phase.IMPORT), LOAD),
        (Progress(phase=Phase.LOAD), LOAD),
        (Progress(phase=Phase.DECODE), TOKEN),
        (Progress(phase=Phase.PICTURES, done=1, total=2), PREPARE),
        (Progress(phase=Phase.LOOK, total=900), NativeCall(CallKind.LOOK, 900)),
        (Progress(phase=Phase.LOOK), NativeCall(CallKind.LOOK, 1)),
        (Started(request_id=1, prompt_tokens=9, max_tokens=9), PREPARE),
        (Delta(request_id=1, text="x", completion_tokens=1), TOKEN),
        (Hello(secret=b"", generation=1, pid=1, version=""), None),
        (_FINISHED, None),
    ],
)
def test_each_message_says_what_comes_next(message: FromWorker, call: NativeCall | None) -> None:
    assert call_after(message, 128) == call


def test_a_slice_is_as_long_as_the_chunk_or_what_is_left() -> None:
    assert _slice(0, 1000, 128) == NativeCall(CallKind.SLICE, 128)
    assert _slice(896, 1000, 128) == NativeCall(CallKind.SLICE, 104)
    assert _slice(100, 8000, 0) == NativeCall(CallKind.SLICE, 7900)
    assert _slice(8, 8, 128) == NativeCall(CallKind.SLICE, 1)


def test_before_anything_was_measured_a_slice_has_time_by_its_tokens() -> None:
    times = CallTimes(WatchBounds())

    assert times.budget_s(NativeCall(CallKind.SLICE, 128)) == 30 + 2 * 128
    # Case F10, with the whole prompt in one call: minutes of silence are honest.
    assert times.budget_s(NativeCall(CallKind.SLICE, 8000)) > 60 * 60


def test_a_measured_slice_may_take_twenty_times_as_long() -> None:
    times = CallTimes(WatchBounds())
    times.note(NativeCall(CallKind.SLICE, 128), 4.0)

    assert times.budget_s(NativeCall(CallKind.SLICE, 128)) == 80
    assert times.budget_s(NativeCall(CallKind.SLICE, 1)) == 80
    assert times.budget_s(NativeCall(CallKind.SLICE, 1280)) == 800


def test_pictures_have_time_by_their_tokens_whatever_was_measured() -> None:
    times = CallTimes(WatchBounds())
    times.note(NativeCall(CallKind.SLICE, 128), 0.05)
    times.note(NativeCall(CallKind.LOOK, 10), 0.05)

    assert times.budget_s(NativeCall(CallKind.LOOK, 1000)) == 30 + 2 * 1000
    assert times.budget_s(NativeCall(CallKind.SLICE, 128)) == 30


def test_fast_calls_still_have_the_least_budget() -> None:
    times = CallTimes(WatchBounds())
    times.note(NativeCall(CallKind.SLICE, 128), 0.05)
    times.note(TOKEN, 0.01)

    assert times.budget_s(NativeCall(CallKind.SLICE, 128)) == 30
    assert times.budget_s(TOKEN) == 30


def test_a_first_token_may_take_as_long_as_slices_do() -> None:
    times = CallTimes(WatchBounds())
    times.note(NativeCall(CallKind.SLICE, 128), 60.0)
    assert times.budget_s(TOKEN) == 1200

    times.note(TOKEN, 5.0)
    assert times.budget_s(TOKEN) == 100


def test_tokens_that_get_slower_get_more_time() -> None:
    times = CallTimes(WatchBounds())

    for number in range(1, 100):
        seconds = 0.1 * number
        assert seconds < times.budget_s(TOKEN)
        times.note(TOKEN, seconds)

    assert times.budget_s(TOKEN) > 150


@given(noted=st.lists(st.tuples(_TOKENS, _SECONDS), max_size=30), tokens=_TOKENS)
def test_no_budget_is_below_the_least(noted: list[tuple[int, float]], tokens: int) -> None:
    bounds = WatchBounds()
    times = CallTimes(bounds)

    for slice_tokens, seconds in noted:
        times.note(NativeCall(CallKind.SLICE, slice_tokens), seconds)

    for call in (NativeCall(CallKind.SLICE, tokens), TOKEN, PREPARE, LOAD):
        assert times.budget_s(call) >= bounds.call_budget_s


@given(seconds=st.lists(_SECONDS, min_size=1), tokens=_TOKENS)
def test_a_slice_like_the_ones_before_is_within_its_budget(seconds: list[float], tokens: int) -> None:
    times = CallTimes(WatchBounds())
    call = NativeCall(CallKind.SLICE, tokens)

    for second in seconds:
        times.note(call, second)

    assert times.budget_s(call) >= min(seconds)
    assert times.budget_s(call) >= 0.2 * 20 * seconds[-1] * 0.999


@pytest.mark.parametrize("field", ["interval_s", "stopped_s", "request_stall_s", "call_budget_s", "budget_factor"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_bounds_that_make_no_sense_are_named(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} must be above zero"):
        WatchBounds(**{field: value})
