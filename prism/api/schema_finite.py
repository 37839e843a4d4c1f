"""Whether any answer of finite length can fit a schema that refers to itself. Called by `schema_rewriting.py` on its result; pure.

A list of lists without end would be begun by the model and never closed. Contradictions of other kinds are the compiler's to find.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

_Definitions: TypeAlias = Mapping[str, object]

REFERENCE_PREFIX = "#/$defs/"


def is_endless(root: object, definitions: _Definitions) -> bool:
    """Return True when nothing can fit the root."""
    ending: set[str] = set()

    while True:
        found = {name for name, schema in definitions.items() if name not in ending and _can_end(schema, ending)}

        if not found:
            break

        ending |= found

    return not _can_end(root, ending)


def has_circle(definitions: _Definitions) -> bool:
    """Return True when a definition leads to itself for the very same value, which no validator can follow."""
    same = {name: set(_same_value(schema)) for name, schema in definitions.items()}

    while True:
        leaves = {name for name, others in same.items() if not others & same.keys()}

        if not leaves:
            return bool(same)

        same = {name: others for name, others in same.items() if name not in leaves}


def _same_value(schema: object) -> Iterator[str]:
    """The definitions that have a say about the same value as this schema."""
    if not isinstance(schema, Mapping):
        return

    reference = schema.get("$ref")

    if isinstance(reference, str):
        yield reference.removeprefix(REFERENCE_PREFIX)

    for key in ("allOf", "anyOf"):
        for part in _schemas(schema.get(key)):
            yield from _same_value(part)


def _can_end(schema: object, ending: set[str]) -> bool:
    if not isinstance(schema, Mapping):
        return schema is not False

    reference = schema.get("$ref")

    if isinstance(reference, str) and reference.removeprefix(REFERENCE_PREFIX) not in ending:
        return False

    if not all(_can_end(part, ending) for part in _schemas(schema.get("allOf"))):
        return False

    if "anyOf" in schema and not any(_can_end(part, ending) for part in _schemas(schema["anyOf"])):
        return False

    return "enum" in schema or "const" in schema or _some_type_can_end(schema, ending)


def _some_type_can_end(schema: Mapping[str, object], ending: set[str]) -> bool:
    named = schema.get("type")
    types = {named} if isinstance(named, str) else set(named) if isinstance(named, list) else None

    if types is None or types - {"array", "object"}:
        return True

    return ("array" in types and _array_can_end(schema, ending)) or (
        "object" in types and _object_can_end(schema, ending)
    )


def _array_can_end(schema: Mapping[str, object], ending: set[str]) -> bool:
    least = schema.get("minItems", 0)
    prefix = _schemas(schema.get("prefixItems"))

    if not isinstance(least, int) or least <= 0:
        return True

    rest = [schema.get("items", True)] if least > len(prefix) else []
    return all(_can_end(part, ending) for part in [*prefix[:least], *rest])


def _object_can_end(schema: Mapping[str, object], ending: set[str]) -> bool:
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    other = schema.get("additionalProperties", True) if "patternProperties" not in schema else True
    required = schema.get("required")
    return all(_can_end(known.get(name, other), ending) for name in (required if isinstance(required, list) else ()))


def _schemas(value: object) -> list[object]:
    return value if isinstance(value, list) else []
