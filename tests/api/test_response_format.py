"""response_format: three types, and a schema where one is needed."""

import json

import pytest

from prism.api.chat_request import ChatRequest, decode_chat_request
from prism.api.errors import ApiError
from prism.api.response_format import answer_schema

SCHEMA = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}, "required": ["b"]}


def decoded(wanted: object) -> ChatRequest:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "response_format": wanted}

    return decode_chat_request(json.dumps(body).encode())


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "text", "json_schema": {"schema": SCHEMA}}, None),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}, SCHEMA),
        ({"type": "json_schema", "json_schema": {"schema": {}}}, {}),
    ],
)
def test_the_schema_that_the_content_must_fit(wanted: object, expected: dict[str, object] | None) -> None:
    schema = answer_schema(decoded(wanted).response_format)

    assert json.dumps(schema) == json.dumps(expected)


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        ("json_object", "response_format"),
        ([], "response_format"),
        ({}, "response_format.type"),
        ({"type": "xml"}, "response_format.type"),
        ({"type": 5}, "response_format.type"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": "x"}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, "response_format.json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"schema": None}}, "response_format.json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"schema": True}}, "response_format.json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"schema": "{}"}}, "response_format.json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"name": 5, "schema": {}}}, "response_format.json_schema.name"),
    ],
)
def test_a_bad_format_is_named(wanted: object, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        decoded(wanted)

    assert (caught.value.status, caught.value.param) == (400, param)


def test_a_schema_of_endless_depth_is_refused() -> None:
    schema: dict[str, object] = {}

    for _ in range(100):
        schema = {"items": schema}

    with pytest.raises(ApiError) as caught:
        decoded({"type": "json_schema", "json_schema": {"schema": schema}})

    assert "64 levels" in caught.value.message
