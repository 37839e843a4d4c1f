"""The keywords of JSON Schema one by one: which are enforced, and which are refused. Called by `schema_rewriting.py`; pure."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from prism.api.schema_faults import SchemaUnsupported
from prism.api.schema_patterns import PatternUnsupported, compiler_pattern

Schema: TypeAlias = Mapping[str, object]

MAX_ITEMS: Final = 10_000
MAX_TEXT_CHARS: Final = 1_000_000
OBJECT_KEYS: Final = (
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "minProperties",
    "maxProperties",
)

_TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
# Keywords that say what may be, and that no grammar here can say.
_UNENFORCEABLE: Final = (
    *("not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"),
    *("contains", "minContains", "maxContains", "uniqueItems", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef"),
)
# Values with which those say nothing.
_SAYING_NOTHING: Mapping[str, tuple[object, ...]] = {
    "not": (False,),
    "uniqueItems": (False,),
    "propertyNames": (True, {}),
    "unevaluatedItems": (True, {}),
    "unevaluatedProperties": (True, {}),
    "dependentRequired": ({},),
    "dependentSchemas": ({},),
    "dependencies": ({},),
}
_ENFORCED_FORMATS: Final = frozenset({"duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"})
_REFUSED_FORMATS: Final = frozenset(
    {"idn-email", "idn-hostname", "iri", "iri-reference", "json-pointer", "regex"}
    | {"relative-json-pointer", "uri-reference", "uri-template"}
)
# The compiler's own dates have a 29th of February each year and minutes of 61 seconds, which parsers of dates refuse.
_YEAR: Final = "(?:[1-9][0-9]{3})"
_LONG_MONTH: Final = "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
_SHORT_MONTH: Final = "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
_FEBRUARY: Final = "02-(?:0[1-9]|1[0-9]|2[0-8])"
_DATE: Final = f"{_YEAR}-(?:{_LONG_MONTH}|{_SHORT_MONTH}|{_FEBRUARY})"
_TIME: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])"
_FORMAT_PATTERNS: Mapping[str, str] = {
    "date": f"^{_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DATE}T{_TIME}$",
}


def check_types(schema: Schema, path: str) -> None:
    """Raise SchemaUnsupported for a `type` that there is not, and for what changes the meaning of references."""
    named = schema.get("type", [])
    names = named if isinstance(named, list) else [named]

    for name in names:
        if not isinstance(name, str) or name not in _TYPES:
            raise SchemaUnsupported(path, f"has the type {str(name)[:40]!r}, which there is not")

    if path != "#" and isinstance(schema.get("$id"), str):
        raise SchemaUnsupported(path, "has a '$id' of its own, which changes what references mean: leave it out")


def refuse_unenforceable(schema: Schema, path: str) -> None:
    """Raise SchemaUnsupported for the first keyword that cannot be enforced."""
    for key in _UNENFORCEABLE:
        if key not in schema or any(_is_same(schema[key], nothing) for nothing in _SAYING_NOTHING.get(key, ())):
            continue

        if key in ("then", "else") and "if" not in schema:
            continue

        most = schema.get("maxItems")

        if key == "uniqueItems" and isinstance(most, int) and most <= 1:
            continue

        raise SchemaUnsupported(path, f"has the keyword '{key}', which cannot be enforced")


def _is_same(value: object, nothing: object) -> bool:
    return type(value) is type(nothing) and value == nothing


def plain_keywords(schema: Schema, path: str) -> dict[str, object]:
    """Return the keywords that hold no other schema, but for those of numbers and objects."""
    result: dict[str, object] = {key: schema[key] for key in ("type", "const") if key in schema}

    if "enum" in schema:
        values = schema["enum"]

        if not isinstance(values, list) or not values:
            raise SchemaUnsupported(path, "has an 'enum' that is no list of values")

        result["enum"] = values

    result |= _counts(schema, path, "minItems", "maxItems", MAX_ITEMS)
    result |= _counts(schema, path, "minLength", "maxLength", MAX_TEXT_CHARS)
    return result | _pattern(schema, path)


def count(schema: Schema, key: str, path: str) -> int | None:
    """Return a keyword that counts something; None when it is not there. A whole number may be written as 3.0."""
    value = schema.get(key)

    if value is None:
        return None

    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < 0:
        raise SchemaUnsupported(path, f"has a '{key}' that is no whole number of at least 0")

    return int(value)


def _counts(schema: Schema, path: str, least_key: str, most_key: str, bound: int) -> dict[str, object]:
    least, most = count(schema, least_key, path), count(schema, most_key, path)

    if least is not None and least > bound:
        raise SchemaUnsupported(path, f"has a '{least_key}' above {bound}")

    result: dict[str, object] = {} if least is None else {least_key: least}
    return result if most is None else {**result, most_key: min(most, bound)}


def _pattern(schema: Schema, path: str) -> dict[str, object]:
    result: dict[str, object] = {}

    if "pattern" in schema:
        result["pattern"] = pattern(schema["pattern"], path)

    name = schema.get("format")

    if not isinstance(name, str) or name not in _ENFORCED_FORMATS | _REFUSED_FORMATS | _FORMAT_PATTERNS.keys():
        return result

    if name in _REFUSED_FORMATS:
        raise SchemaUnsupported(path, f"has the format '{name}', which cannot be enforced")

    if name in _FORMAT_PATTERNS and "pattern" not in result:
        return {"pattern": _FORMAT_PATTERNS[name]}

    return {**result, "format": name}


def pattern(written: object, path: str) -> str:
    """Return a regular expression as the compiler takes it."""
    if not isinstance(written, str):
        raise SchemaUnsupported(path, "has a pattern that is no text")

    try:
        return compiler_pattern(written)
    except PatternUnsupported as error:
        raise SchemaUnsupported(path, f"has a pattern that cannot be enforced: {error}") from error
