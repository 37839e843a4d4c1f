"""`response_format`: free text, any JSON object, or JSON that fits a schema. Pure."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from prism.api.free_json import decode_object, is_absent
from prism.api.refusals import invalid_request

SCHEMA_FIELD: Final = "response_format.json_schema.schema"
_ANY_OBJECT: dict[str, object] = {"type": "object"}


class JsonSchemaFormat(msgspec.Struct, frozen=True):
    """schema: a JSON Schema, kept as JSON text."""

    name: str | None = None
    schema: Annotated[msgspec.Raw, Meta(extra_json_schema={"type": ["object", "null"]})] = msgspec.field(
        default_factory=msgspec.Raw
    )
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, frozen=True):
    """What the content of the answer must be."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaFormat | None = None


def check_response_format(wanted: ResponseFormat | None) -> None:
    """Raise ApiError when a schema is asked for and none is given. Whether it can be compiled is for the engine to say."""
    if wanted is None or wanted.type != "json_schema":
        return

    if wanted.json_schema is None:
        raise invalid_request(
            "'response_format.json_schema' is required with this type.", "response_format.json_schema"
        )

    if is_absent(wanted.json_schema.schema):
        raise invalid_request(f"'{SCHEMA_FIELD}' is required with this type.", SCHEMA_FIELD)

    decode_object(wanted.json_schema.schema, SCHEMA_FIELD)


def answer_schema(wanted: ResponseFormat | None) -> dict[str, object] | None:
    """Return the JSON Schema that the content must fit; None for free text."""
    match wanted:
        case ResponseFormat(type="json_object"):
            return dict(_ANY_OBJECT)

        case ResponseFormat(type="json_schema", json_schema=JsonSchemaFormat(schema=schema)):
            return decode_object(schema, SCHEMA_FIELD)

        case _:
            return None
