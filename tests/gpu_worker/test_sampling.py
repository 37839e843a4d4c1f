"""From a request's sampling to search options."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_worker.errors import RequestFault
from gpu_worker.sampling import SearchOptions, search_options
from ipc.messages import RejectCode, Sampling


def options(sampling: Sampling, *, model_top_k: int | None = None, vocabulary_size: int | None = None) -> SearchOptions:
    return search_options(sampling, max_length=100, model_top_k=model_top_k, vocabulary_size=vocabulary_size)


def test_temperature_zero_is_greedy_whatever_else_is_asked() -> None:
    found = options(Sampling(temperature=0.0, top_p=0.2, top_k=50, seed=3), model_top_k=60)
    assert (found.do_sample, found.top_k) == (False, 1)


def test_temperature_above_zero_samples_with_what_was_asked() -> None:
    found = options(Sampling(temperature=0.7, top_p=0.8, top_k=5, repetition_penalty=1.1))
    assert (found.do_sample, found.temperature, found.top_p, found.top_k) == (True, 0.7, 0.8, 5)
    assert found.repetition_penalty == 1.1


@pytest.mark.parametrize(
    ("requested", "of_model", "expected"),
    [(7, 50, 7), (1, 50, 1), (None, 50, 50), (None, 1, 40), (None, None, 40)],
)
def test_top_k_is_the_requests_then_the_models_above_one_then_forty(
    requested: int | None, of_model: int | None, expected: int
) -> None:
    assert options(Sampling(temperature=1.0, top_k=requested), model_top_k=of_model).top_k == expected


def test_top_k_is_at_most_the_vocabulary() -> None:
    assert options(Sampling(temperature=1.0, top_k=10**9), vocabulary_size=270).top_k == 270


def test_without_a_seed_each_request_gets_its_own() -> None:
    assert len({options(Sampling()).seed for _ in range(50)}) > 45


def test_without_a_repetition_penalty_the_models_own_stays() -> None:
    assert options(Sampling()).repetition_penalty is None


@given(st.integers(-(2**63), 2**64 - 1))
def test_every_seed_becomes_one_that_the_engine_takes_and_always_the_same(seed: int) -> None:
    found = options(Sampling(seed=seed)).seed
    assert 0 <= found < 2**31
    assert found == options(Sampling(seed=seed)).seed


def test_small_seeds_are_taken_as_they_are() -> None:
    assert options(Sampling(seed=42)).seed == 42


@pytest.mark.parametrize(
    ("sampling", "field"),
    [
        (Sampling(temperature=math.nan), "temperature"),
        (Sampling(temperature=math.inf), "temperature"),
        (Sampling(temperature=-0.1), "temperature"),
        (Sampling(top_p=0.0), "top_p"),
        (Sampling(top_p=1.01), "top_p"),
        (Sampling(top_p=math.nan), "top_p"),
        (Sampling(top_k=0), "top_k"),
        (Sampling(repetition_penalty=0.0), "repetition_penalty"),
        (Sampling(repetition_penalty=math.nan), "repetition_penalty"),
        (Sampling(repetition_penalty=math.inf), "repetition_penalty"),
    ],
)
def test_what_cannot_be_sampled_with_is_refused_by_name(sampling: Sampling, field: str) -> None:
    with pytest.raises(RequestFault, match=field) as caught:
        options(sampling)

    assert caught.value.code is RejectCode.INVALID_REQUEST
