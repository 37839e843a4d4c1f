"""The loop guard: stuck models are seen, honest repetition is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_worker.loop_guard import CHECK_EVERY, MAX_PERIOD, MIN_REPEATS, MIN_TOKENS, LoopGuard, repeated_period

CYCLE = list(range(8))


def tripped_at(tokens: list[int]) -> int | None:
    guard = LoopGuard()
    return next((count for count, token in enumerate(tokens, 1) if guard.sees_loop(token)), None)


@pytest.mark.parametrize(
    "tokens",
    [
        pytest.param(list(range(800)), id="800 distinct tokens"),
        pytest.param(CYCLE * 10, id="10 repeats of an 8-token cycle"),
        pytest.param([*[7] * 207, 8], id="a cycle broken at the last token"),
        pytest.param([7] * (MIN_TOKENS - 1), id="one token short"),
        pytest.param(list(range(65)) * 20, id="a period past the largest"),
    ],
)
def test_honest_output_does_not_trip_the_guard(tokens: list[int]) -> None:
    assert repeated_period(tokens) is None
    assert tripped_at(tokens) is None


def test_one_token_repeated_trips_the_guard() -> None:
    assert repeated_period([7] * 250) == 1
    assert tripped_at([7] * 250) == 208


def test_a_cycle_of_eight_repeated_thirty_times_trips_the_guard() -> None:
    assert repeated_period(CYCLE * 30) == 8
    assert tripped_at(CYCLE * 30) is not None


def test_the_smallest_period_is_named() -> None:
    assert repeated_period([1, 2, 1, 2] * 60) == 2


def test_a_loop_after_a_long_honest_beginning_is_seen() -> None:
    honest = [token % 50_000 for token in range(0, 5_000_000, 997)]
    found = tripped_at(honest + [3, 1, 4] * 200)
    assert found is not None
    assert found <= len(honest) + MIN_TOKENS + CHECK_EVERY


def test_a_long_cycle_must_come_twelve_times() -> None:
    cycle = list(range(64))
    assert repeated_period(cycle * 12) == 64
    assert repeated_period(cycle * 11) is None
    assert repeated_period([*cycle * 11, *cycle[:63]]) is None


def test_a_long_cycle_after_a_long_beginning_is_seen_in_time() -> None:
    honest = [1_000 + number for number in range(1_000)]
    found = tripped_at(honest + list(range(64)) * 20)
    assert found is not None
    assert found <= len(honest) + 12 * 64 + CHECK_EVERY


@given(
    st.lists(st.integers(0, 3), max_size=30),
    st.lists(st.integers(0, 5), min_size=1, max_size=MAX_PERIOD),
    st.integers(0, 40),
)
def test_a_reported_period_is_a_true_period(start: list[int], cycle: list[int], repeats: int) -> None:
    tokens = start + cycle * repeats
    period = repeated_period(tokens)
    span = max(MIN_TOKENS, MIN_REPEATS * len(cycle))

    if period is None:
        assert len(cycle) * repeats < span
    else:
        tail = tokens[-max(MIN_TOKENS, MIN_REPEATS * period) :]
        assert all(tail[i] == tail[i - period] for i in range(period, len(tail)))


@given(st.lists(st.integers(0, 2), min_size=1, max_size=10), st.integers(0, 15))
def test_the_guard_is_late_by_less_than_one_check(cycle: list[int], offset: int) -> None:
    span = max(MIN_TOKENS, MIN_REPEATS * len(cycle))
    prefix = [1_000 + number for number in range(offset)]
    found = tripped_at(prefix + cycle * (span // len(cycle) + 40))
    assert found is not None
    assert found < offset + span + len(cycle) + CHECK_EVERY
