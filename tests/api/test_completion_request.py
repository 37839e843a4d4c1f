"""The text completion body: prompts are answered all or refused, never dropped."""

import json

import pytest

from prism.api.completion_request import CompletionRequest, decode_completion_request, prompts_of
from prism.api.errors import ApiError
from prism.api.generation_numbers import check_numbers, max_new_tokens
from prism.api.limits import MAX_PROMPTS


def decoded(**fields: object) -> CompletionRequest:
    return decode_completion_request(json.dumps({"model": "m", "prompt": "once", **fields}).encode())


def refused(**fields: object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        decoded(**fields)

    assert caught.value.status == 400

    return caught.value


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("once", ("once",)),
        (["once"], ("once",)),
        (["a", "b"], ("a", "b")),
        (" ", (" ",)),
        (["x"] * MAX_PROMPTS, ("x",) * MAX_PROMPTS),
    ],
)
def test_every_prompt_is_kept(prompt: object, expected: tuple[str, ...]) -> None:
    assert prompts_of(decoded(prompt=prompt)) == expected


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        ("", "prompt"),
        ([], "prompt"),
        (None, "prompt"),
        ({}, "prompt"),
        (["a", ""], "prompt[1]"),
        (["x"] * (MAX_PROMPTS + 1), "prompt"),
        ([1, 2, 3], "prompt[0]"),
        ([[1, 2], [3]], "prompt[0]"),
        (["a", None], "prompt[1]"),
    ],
)
def test_other_prompts_are_refused(prompt: object, param: str) -> None:
    assert refused(prompt=prompt).param == param


def test_a_missing_prompt_is_named() -> None:
    with pytest.raises(ApiError) as caught:
        decode_completion_request(b'{"model":"m"}')

    assert caught.value.param == "prompt"


def test_arrays_of_tokens_are_called_by_their_name() -> None:
    assert "arrays of tokens" in refused(prompt=[1, 2]).message


def test_both_token_bounds_are_read() -> None:
    assert max_new_tokens(decoded(max_tokens=3)) == 3
    assert max_new_tokens(decoded(max_completion_tokens=4)) == 4

    with pytest.raises(ApiError):
        check_numbers(decoded(max_tokens=3, max_completion_tokens=4), is_onnx=True)


@pytest.mark.parametrize(
    "fields",
    [
        {"echo": False},
        {"echo": None},
        {"suffix": ""},
        {"suffix": None},
        {"best_of": 1},
        {"best_of": None},
        {"logprobs": 3},
        {"n": 2},
        {"user": "u"},
        {"logit_bias": {}},
    ],
)
def test_fields_that_ask_for_nothing_are_accepted(fields: dict[str, object]) -> None:
    check_numbers(decoded(**fields), is_onnx=True)


@pytest.mark.parametrize(("field", "value"), [("echo", True), ("suffix", "end"), ("best_of", 2)])
def test_fields_that_would_change_the_answer_are_refused(field: str, value: object) -> None:
    error = refused(**{field: value})

    assert (error.code, error.param) == ("unsupported_parameter", field)


def test_best_of_must_be_positive() -> None:
    assert refused(best_of=0).param == "best_of"


def test_the_model_must_be_named() -> None:
    assert refused(model=" ").param == "model"


def test_a_half_surrogate_and_a_nul_are_named() -> None:
    assert refused(prompt="a\ud83d").param == "prompt"
    assert refused(prompt=["a", "b\0"]).param == "prompt[1]"
