"""The embeddings body."""

import json

import pytest

from prism.api.embeddings_request import EmbeddingsRequest, decode_embeddings_request, embedding_inputs, wants_base64
from prism.api.errors import ApiError
from prism.api.limits import MAX_EMBEDDING_INPUTS


def decoded(**fields: object) -> EmbeddingsRequest:
    return decode_embeddings_request(json.dumps({"model": "m", "input": "text", **fields}).encode())


def refused(**fields: object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        decoded(**fields)

    assert caught.value.status == 400

    return caught.value


@pytest.mark.parametrize(
    ("texts", "expected"),
    [("a", ("a",)), (["a", "b"], ("a", "b")), (["a"] * MAX_EMBEDDING_INPUTS, ("a",) * MAX_EMBEDDING_INPUTS)],
)
def test_inputs(texts: object, expected: tuple[str, ...]) -> None:
    assert embedding_inputs(decoded(input=texts)) == expected


@pytest.mark.parametrize(
    ("texts", "param"),
    [
        ("", "input"),
        ([], "input"),
        (None, "input"),
        (5, "input"),
        (["a", ""], "input[1]"),
        (["a"] * (MAX_EMBEDDING_INPUTS + 1), "input"),
        ([1, 2], "input[0]"),
        ([[1, 2]], "input[0]"),
        (["a\0"], "input[0]"),
    ],
)
def test_other_inputs_are_refused(texts: object, param: str) -> None:
    assert refused(input=texts).param == param


def test_arrays_of_tokens_are_called_by_their_name() -> None:
    assert "arrays of tokens" in refused(input=[[1, 2]]).message


@pytest.mark.parametrize(("value", "expected"), [(None, False), ("float", False), ("base64", True)])
def test_encoding_format(value: str | None, expected: bool) -> None:
    assert wants_base64(decoded(encoding_format=value)) is expected


@pytest.mark.parametrize("value", ["int8", "", 5, "BASE64"])
def test_other_encodings_are_refused(value: object) -> None:
    error = refused(encoding_format=value)

    assert error.param == "encoding_format"
    assert "base64" in error.message


@pytest.mark.parametrize("value", [256, 0, "256", 2.5, [], True])
def test_dimensions_are_not_supported(value: object) -> None:
    error = refused(dimensions=value)

    assert (error.code, error.param) == ("dimensions_not_supported", "dimensions")


def test_null_dimensions_and_unknown_fields_are_ignored() -> None:
    assert decoded(dimensions=None, user="u").model == "m"


def test_input_is_checked_before_dimensions_and_dimensions_before_the_model() -> None:
    assert refused(input=[], dimensions=5, model="").param == "input"
    assert refused(dimensions=5, model="").param == "dimensions"
    assert refused(model="").param == "model"
