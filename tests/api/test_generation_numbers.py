"""Ranges of the numbers, and what the engine gets."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipc.messages import Sampling
from prism.api.errors import ApiError
from prism.api.generation_fields import GenerationFields
from prism.api.generation_numbers import check_numbers, max_new_tokens, sampling_of, stop_strings


def request(**fields: Any) -> GenerationFields:
    return GenerationFields(model="m", **fields)


def refused(field: str, value: Any, *, is_onnx: bool = True) -> ApiError:
    with pytest.raises(ApiError) as caught:
        check_numbers(request(**{field: value}), is_onnx=is_onnx)

    assert caught.value.status == 400

    return caught.value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", 0),
        ("temperature", 2),
        ("temperature", -0.0),
        ("top_p", 1),
        ("top_p", 1e-9),
        ("top_k", 1),
        ("top_k", 10**30),
        ("repetition_penalty", 1e-9),
        ("repetition_penalty", 1e300),
        ("frequency_penalty", 0),
        ("presence_penalty", 0.0),
        ("max_tokens", 1),
        ("max_tokens", 2**63),
        ("max_completion_tokens", 1),
        ("seed", -(2**63)),
        ("seed", 2**63 - 1),
        ("seed", 0),
        ("n", 1),
        ("n", 5),
        ("stop", "x"),
        ("stop", []),
        ("stop", ["a", "b", "c", "d"]),
        ("stop", "x" * 256),
        ("stop", "\n"),
    ],
)
def test_the_ends_of_each_range_are_accepted(field: str, value: object) -> None:
    check_numbers(request(**{field: value}), is_onnx=True)


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("temperature", -0.1, "temperature"),
        ("temperature", 2.1, "temperature"),
        ("temperature", math.nan, "temperature"),
        ("temperature", math.inf, "temperature"),
        ("top_p", 0, "top_p"),
        ("top_p", 1.1, "top_p"),
        ("top_p", -1, "top_p"),
        ("top_p", math.nan, "top_p"),
        ("top_k", 0, "top_k"),
        ("top_k", -5, "top_k"),
        ("repetition_penalty", 0, "repetition_penalty"),
        ("repetition_penalty", -1, "repetition_penalty"),
        ("repetition_penalty", math.inf, "repetition_penalty"),
        ("repetition_penalty", math.nan, "repetition_penalty"),
        ("frequency_penalty", 2.1, "frequency_penalty"),
        ("presence_penalty", -10, "presence_penalty"),
        ("frequency_penalty", math.nan, "frequency_penalty"),
        ("max_tokens", 0, "max_tokens"),
        ("max_tokens", -1, "max_tokens"),
        ("max_completion_tokens", 0, "max_completion_tokens"),
        ("n", 0, "n"),
        ("n", -1, "n"),
        ("seed", 2**63, "seed"),
        ("seed", -(2**63) - 1, "seed"),
        ("seed", 10**4_000, "seed"),
        ("stop", "", "stop"),
        ("stop", ["a", ""], "stop[1]"),
        ("stop", ["a"] * 5, "stop"),
        ("stop", "x" * 257, "stop"),
        ("stop", ["x" * 257], "stop[0]"),
    ],
)
def test_out_of_range_is_refused_and_named(field: str, value: object, param: str) -> None:
    error = refused(field, value)

    assert error.param == param
    assert len(error.message) < 200


@pytest.mark.parametrize("field", ["frequency_penalty", "presence_penalty"])
def test_penalties_that_onnx_lacks_are_refused_there_only(field: str) -> None:
    assert refused(field, 0.5).code == "unsupported_parameter"
    assert refused(field, 3).code is None
    assert refused(field, 3, is_onnx=False).param == field
    check_numbers(request(**{field: -2}), is_onnx=False)


def test_two_different_token_bounds_are_refused() -> None:
    with pytest.raises(ApiError) as caught:
        check_numbers(request(max_tokens=5, max_completion_tokens=6), is_onnx=True)

    assert caught.value.param == "max_completion_tokens"
    check_numbers(request(max_tokens=5, max_completion_tokens=5), is_onnx=True)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 512),
        ({"max_tokens": 7}, 7),
        ({"max_completion_tokens": 5}, 5),
        ({"max_tokens": 7, "max_completion_tokens": 7}, 7),
        ({"max_tokens": 10**20}, 2**31 - 1),
    ],
)
def test_token_bound(fields: dict[str, int], expected: int) -> None:
    assert max_new_tokens(request(**fields)) == expected


@pytest.mark.parametrize(("stop", "expected"), [(None, ()), ([], ()), ("x", ("x",)), (["a", "b"], ("a", "b"))])
def test_stop_strings(stop: object, expected: tuple[str, ...]) -> None:
    assert stop_strings(request(stop=stop)) == expected


def test_nothing_given_is_the_default_sampling() -> None:
    assert sampling_of(request()) == Sampling(
        temperature=0.1, top_p=0.9, top_k=None, repetition_penalty=None, seed=None
    )


def test_what_is_given_is_passed_on() -> None:
    given = {"temperature": 0.7, "top_p": 0.5, "top_k": 4, "repetition_penalty": 1.05, "seed": -3}

    assert sampling_of(request(**given)) == Sampling(**given)  # type: ignore[arg-type]


@given(
    st.floats(0, 2),
    st.floats(0, 1, exclude_min=True),
    st.integers(1),
    st.floats(0, exclude_min=True, allow_infinity=False, allow_nan=False),
)
def test_accepted_numbers_stay_sound_in_32_bits(temperature: float, top_p: float, top_k: int, penalty: float) -> None:
    asked = request(temperature=temperature, top_p=top_p, top_k=top_k, repetition_penalty=penalty)
    check_numbers(asked, is_onnx=True)
    sampling = sampling_of(asked)

    assert sampling.temperature == 0 or sampling.temperature >= 1e-4
    assert 1e-6 <= sampling.top_p <= 1
    assert sampling.top_k is not None
    assert 1 <= sampling.top_k < 2**31
    assert sampling.repetition_penalty is not None
    assert 1e-6 <= sampling.repetition_penalty <= 1e6
