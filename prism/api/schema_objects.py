"""The keywords of objects in a JSON Schema. Called by `schema_rewriting.py`; pure.

The compiler keeps the listed properties in their order, each at most once. Of those that are not listed it does not know which it had, so
that a count of them would be wrong when one comes twice.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from prism.api.schema_faults import SchemaUnsupported
from prism.api.schema_keywords import count, pattern

Schema: TypeAlias = Mapping[str, object]
_Rewrite: TypeAlias = Callable[[object, str], dict[str, object] | bool]

# Each optional one may come next, which the compiler's parser holds in one row of 2,000 places, four for each.
MAX_OPTIONAL_PROPERTIES: Final = 400
_MOST_COUNTED: Final = 1_000


def object_keywords(schema: Schema, path: str, rewrite: _Rewrite, *, may_close: bool) -> dict[str, object]:
    """Return the keywords that stand for those of `schema`. may_close: properties that are not listed may be left out of account."""
    properties = _named_schemas(schema, "properties", path)
    patterns = _named_schemas(schema, "patternProperties", path)
    required = _required(schema, path)
    result: dict[str, object] = {}

    if len(properties.keys() - set(required)) > MAX_OPTIONAL_PROPERTIES:
        raise SchemaUnsupported(path, f"has more than {MAX_OPTIONAL_PROPERTIES} optional properties")

    if properties:
        result["properties"] = {name: rewrite(part, f"{path}/properties/{name}") for name, part in properties.items()}

    if patterns and not may_close:
        # The compiler's intersection of two objects leaves them out.
        raise SchemaUnsupported(path, "has 'patternProperties' for an object of which other schemas speak too")

    if patterns:
        result["patternProperties"] = {
            pattern(name, path): rewrite(part, f"{path}/patternProperties/{name}") for name, part in patterns.items()
        }

    if required:
        result["required"] = required

    if "additionalProperties" in schema:
        result["additionalProperties"] = rewrite(schema["additionalProperties"], f"{path}/additionalProperties")
    elif may_close and "properties" in schema and not patterns and all(name in properties for name in required):
        result["additionalProperties"] = False

    return result | _counts(schema, path, properties, required)


def _counts(schema: Schema, path: str, properties: Schema, required: list[str]) -> dict[str, object]:
    least, most = count(schema, "minProperties", path), count(schema, "maxProperties", path)
    result: dict[str, object] = {}

    if most is not None:
        result["maxProperties"] = min(most, _MOST_COUNTED)

    if least is None or least <= len(required):
        return result

    if least > 1:
        raise SchemaUnsupported(
            path,
            f"has a 'minProperties' of {least}, which can be enforced up to the number of required properties, or 1",
        )

    return {**result, "minProperties": least}


def _named_schemas(schema: Schema, key: str, path: str) -> Schema:
    named = schema.get(key, {})

    if not isinstance(named, Mapping):
        raise SchemaUnsupported(path, f"has '{key}' that are no object")

    return named


def _required(schema: Schema, path: str) -> list[str]:
    names = schema.get("required", [])

    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SchemaUnsupported(path, "has a 'required' that is no list of names")

    # Twice the same name is no schema, but means what it means once.
    return list(dict.fromkeys(names))
