"""What msgspec says becomes a sentence and a path."""

from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from prism.api.errors import ApiError
from prism.api.shape_errors import shape_error


class Inner(msgspec.Struct):
    kind: Literal["a", "b"]
    size: Annotated[int, Meta(ge=1)] = 1


class Outer(msgspec.Struct):
    inner: list[Inner] = []
    name: Annotated[str, Meta(min_length=1, max_length=3)] = "x"
    many: Annotated[list[int], Meta(max_length=1)] = []
    mixed: str | list[str | Inner] | None = None


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        (b'{"inner":[{"kind":"a"},{"size":1}]}', "inner[1].kind", "'inner[1].kind' is required."),
        (b'{"inner":[{"kind":"z"}]}', "inner[0].kind", "'inner[0].kind' has the unknown value 'z'."),
        (b'{"inner":[1]}', "inner[0]", "'inner[0]' must be an object, not an integer."),
        (b'{"inner":{}}', "inner", "'inner' must be a list, not an object."),
        (b'{"name":""}', "name", "'name' must not be empty."),
        (b'{"name":"long"}', "name", "'name' must have at most 3 characters."),
        (b'{"many":[1,2]}', "many", "'many' must have at most 1 entries."),
        (b'{"mixed":1.5}', "mixed", "'mixed' must be a string, a list or null, not a number with a fraction."),
        (b'{"mixed":[1]}', "mixed[0]", "'mixed[0]' must be a string or an object, not an integer."),
        (b"[]", None, "The body must be a JSON object, not a list."),
    ],
)
def test_message_and_path(body: bytes, param: str | None, message: str) -> None:
    error = decode_error(body)

    assert (error.param, error.message) == (param, message)


def test_a_value_cannot_pass_for_a_path() -> None:
    error = decode_error(b'{"inner":[{"kind":"z\' - at `$.evil`"}]}')

    assert error.param == "inner[0].kind"


def test_a_long_value_is_not_echoed_whole() -> None:
    error = decode_error(b'{"inner":[{"kind":"' + b"z" * 100_000 + b'"}]}')

    assert len(error.message) < 200


def test_wording_that_we_do_not_know_still_names_the_field() -> None:
    error = decode_error(b'{"inner":[{"kind":"a","size":0}]}')

    assert error.param == "inner[0].size"
    assert error.message.startswith("'inner[0].size' is not valid")


def decode_error(body: bytes) -> ApiError:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(body, type=Outer)

    return shape_error(caught.value)
