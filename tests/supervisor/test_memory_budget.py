"""Does it fit, and did it come back."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.memory_budget import (
    MemoryKind,
    MemoryNeed,
    check_budget,
    estimate_need,
    is_memory_back,
    reserve_or_default,
)

_MIB = 1 << 20
_GIB = 1 << 30
_BYTES = st.integers(min_value=0, max_value=1 << 45)
_SIGNED = st.integers(min_value=-(1 << 45), max_value=1 << 45)
_RESERVES = st.floats(min_value=0, max_value=1e6)


def _need(total_bytes: int) -> MemoryNeed:
    return MemoryNeed(weights_bytes=total_bytes, kv_bytes=0, prefill_bytes=0)


def test_the_need_is_weights_and_kv_and_prefill() -> None:
    need = estimate_need(4 * _GIB, 360 * _MIB, 1024, 2 * _MIB)

    assert need == MemoryNeed(weights_bytes=4 * _GIB, kv_bytes=360 * _MIB, prefill_bytes=2 * _GIB)
    assert need.total_bytes == 6 * _GIB + 360 * _MIB


def test_a_token_of_prefill_counts_as_measured() -> None:
    assert estimate_need(0, 0, 1000).total_bytes == pytest.approx(1400 * _MIB, rel=0.001)
    assert estimate_need(0, 0, 0).total_bytes == 0


@pytest.mark.parametrize(
    ("figures", "name"),
    [((-1, 0, 0, 0), "weights_bytes"), ((0, -1, 0, 0), "kv_bytes"), ((0, 0, -1, 0), "prefill_tokens")],
)
def test_a_figure_below_zero_is_named(figures: tuple[int, int, int, int], name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must not be below zero: -1"):
        estimate_need(*figures)


def test_the_border_is_exact() -> None:
    need = _need(3 * _GIB)

    assert check_budget(MemoryKind.VRAM, need, 4 * _GIB, 1024.0) is None
    refusal = check_budget(MemoryKind.VRAM, need, 4 * _GIB - 1, 1024.0)
    assert refusal is not None
    assert refusal.missing_bytes == 1


def test_the_model_that_leaves_is_credited() -> None:
    need = _need(8 * _GIB)

    assert check_budget(MemoryKind.VRAM, need, 2 * _GIB, 0.0) is not None
    assert check_budget(MemoryKind.VRAM, need, 2 * _GIB, 0.0, credit_bytes=6 * _GIB) is None


def test_unknown_memory_refuses_nothing_but_none_left_does() -> None:
    assert check_budget(MemoryKind.VRAM, _need(_GIB), None, 1536.0) is None
    assert check_budget(MemoryKind.RAM, _need(_GIB), 0, 2048.0) is not None


def test_b21_the_refusal_tells_every_figure_uncut() -> None:
    need = MemoryNeed(weights_bytes=4 * _GIB, kv_bytes=100 * _MIB, prefill_bytes=50 * _MIB)
    refusal = check_budget(MemoryKind.VRAM, need, 3 * _GIB, 1536.7, credit_bytes=512 * _MIB)

    assert str(refusal) == (
        "VRAM: 5782.7 MiB needed (weights 4096.0, KV cache 100.0, prefill 50.0, reserve 1536.7), "
        "3072.0 MiB available, 512.0 MiB come back from the model that leaves; 2198.7 MiB are missing"
    )


def test_without_a_credit_none_is_mentioned() -> None:
    assert "come back" not in str(check_budget(MemoryKind.RAM, _need(_GIB), 0, 0.0))


@pytest.mark.parametrize("reserve_mb", [math.inf, -math.inf, math.nan, -1.0])
def test_b21_a_reserve_that_is_no_size_is_named(reserve_mb: float) -> None:
    with pytest.raises(ValueError, match="reserve_mb must be a finite number"):
        check_budget(MemoryKind.RAM, _need(0), 0, reserve_mb)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, 1536.0),
        ("", 1536.0),
        ("abc", 1536.0),
        ("inf", 1536.0),
        ("-inf", 1536.0),
        ("nan", 1536.0),
        ("-5", 1536.0),
        ("1e999", 1536.0),
        ("0", 0.0),
        ("1536.7", 1536.7),
        (" 512 ", 512.0),
    ],
)
def test_b21_a_reserve_that_cannot_be_used_is_the_default(text: str | None, wanted: float) -> None:
    assert reserve_or_default(text, 1536.0) == wanted


@given(st.text())
def test_b21_no_text_gives_a_reserve_that_the_check_refuses(text: str) -> None:
    check_budget(MemoryKind.RAM, _need(0), 0, reserve_or_default(text, 1.0))


@given(_BYTES, _SIGNED, _RESERVES, _SIGNED)
def test_a_refusal_comes_exactly_when_something_is_missing(
    total: int, available: int, reserve_mb: float, credit: int
) -> None:
    refusal = check_budget(MemoryKind.VRAM, _need(total), available, reserve_mb, credit)
    missing = total + math.ceil(reserve_mb * _MIB) - available - credit

    assert (refusal is not None) == (missing > 0)
    assert refusal is None or refusal.missing_bytes == missing


@given(_BYTES, _SIGNED, _RESERVES, _SIGNED, _BYTES)
def test_more_memory_or_a_smaller_reserve_never_turns_a_yes_into_a_no(
    total: int, available: int, reserve_mb: float, credit: int, more: int
) -> None:
    if check_budget(MemoryKind.RAM, _need(total), available, reserve_mb, credit) is None:
        assert check_budget(MemoryKind.RAM, _need(total), available + more, reserve_mb, credit) is None
        assert check_budget(MemoryKind.RAM, _need(total), available, reserve_mb / 2, credit) is None
        assert check_budget(MemoryKind.RAM, _need(total), available, reserve_mb, credit + more) is None


@given(_BYTES, _SIGNED, _RESERVES)
def test_exactly_what_is_missing_would_be_enough(total: int, available: int, reserve_mb: float) -> None:
    refusal = check_budget(MemoryKind.VRAM, _need(total), available, reserve_mb)

    if refusal is not None:
        enough = available + refusal.missing_bytes
        assert check_budget(MemoryKind.VRAM, _need(total), enough, reserve_mb) is None
        assert check_budget(MemoryKind.VRAM, _need(total), enough - 1, reserve_mb) is not None


@pytest.mark.parametrize(
    ("free_now", "is_back"),
    [
        (10 * _GIB, True),  # all of it
        (10 * _GIB - 64 * _MIB, True),  # all but the slack
        (9 * _GIB, True),  # three quarters of the 4 GiB that the worker used
        (9 * _GIB - 1, False),
        (6 * _GIB, False),  # nothing came back
        (5 * _GIB, False),  # another program took more meanwhile: below zero,
        (2 * _GIB, False),  # however much it took: not a huge number
    ],
)
def test_memory_is_back_when_most_of_it_is(free_now: int, is_back: bool) -> None:
    assert (
        is_memory_back(
            free_now_bytes=free_now,
            free_before_load_bytes=10 * _GIB,
            free_before_stop_bytes=6 * _GIB,
            used_bytes=4 * _GIB,
        )
        is is_back
    )


@given(_BYTES, _BYTES, _BYTES, _SIGNED, _BYTES)
def test_more_free_memory_never_says_that_less_is_back(
    free_now: int, before_load: int, before_stop: int, used: int, more: int
) -> None:
    def is_back(free: int) -> bool:
        return is_memory_back(
            free_now_bytes=free,
            free_before_load_bytes=before_load,
            free_before_stop_bytes=before_stop,
            used_bytes=used,
        )

    assert is_back(free_now + more) or not is_back(free_now)
    assert is_back(before_load)
