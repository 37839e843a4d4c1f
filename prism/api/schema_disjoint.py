"""Whether two schemas can both fit one value: `oneOf` may be enforced as `anyOf` when no two of its choices can. Called by
`schema_rewriting.py` on schemas that it has rewritten; pure. Says that they cannot only when that is certain.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from prism.api.schema_finite import REFERENCE_PREFIX

_Schema: TypeAlias = Mapping[str, object]

_DEEPEST: Final = 8
_MOST_LOOKS: Final = 50_000
_TYPES: Final = frozenset({"null", "boolean", "number", "string", "array", "object"})


class Comparison:
    """Compares schemas, as far as its budget of looks goes. definitions: what `$ref` leads to."""

    def __init__(self, definitions: _Schema, looks: int = _MOST_LOOKS) -> None:
        self._definitions = definitions
        self._looks = looks

    def are_disjoint(self, left: object, right: object, depth: int = 0) -> bool:
        """Return True when no value fits both."""
        if left is False or right is False:
            return True

        self._looks -= 1

        if depth > _DEEPEST or self._looks < 0:
            return False

        a, b = _resolved(left, self._definitions), _resolved(right, self._definitions)

        if a is None or b is None:
            return False

        return (
            not (_types(a) & _types(b))
            or _values_differ(a, b)
            or self._choices_differ(a, b, depth)
            or self._properties_differ(a, b, depth)
        )

    def _choices_differ(self, a: _Schema, b: _Schema, depth: int) -> bool:
        for one, other in ((a, b), (b, a)):
            choices = one.get("anyOf")

            if isinstance(choices, list) and all(self.are_disjoint(choice, other, depth + 1) for choice in choices):
                return True

        return False

    def _properties_differ(self, a: _Schema, b: _Schema, depth: int) -> bool:
        """Both objects, and a property that one of them must have cannot be what both want."""
        if _types(a) | _types(b) != {"object"}:
            return False

        names = {*_required(a), *_required(b)}
        return any(self.are_disjoint(_property(a, name), _property(b, name), depth + 1) for name in names)


def _resolved(schema: object, definitions: _Schema) -> _Schema | None:
    """Follow references; None for what says nothing. A reference is followed even beside other keywords: they only narrow it."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping):
            return None

        reference = schema.get("$ref")

        if not isinstance(reference, str):
            return schema

        schema = definitions.get(reference.removeprefix(REFERENCE_PREFIX))

    return None


def _types(schema: _Schema) -> frozenset[str]:
    values = _values(schema)

    if values is not None:
        return frozenset(_type_of(value) for value in values)

    named = schema.get("type")
    names = [named] if isinstance(named, str) else named if isinstance(named, list) else _TYPES
    return frozenset("number" if name == "integer" else str(name) for name in names)


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _values(schema: _Schema) -> list[object] | None:
    if "const" in schema:
        return [schema["const"]]

    values = schema.get("enum")
    return values if isinstance(values, list) else None


def _values_differ(a: _Schema, b: _Schema) -> bool:
    left, right = _values(a), _values(b)
    return left is not None and right is not None and not (_marks(left) & _marks(right))


def _marks(values: list[object]) -> set[tuple[str, object]]:
    """The values, each with its type, since True is 1 to Python and not to JSON. All lists are alike here, and all objects."""
    types = ((_type_of(value), value) for value in values)
    return {(name, None if name in ("array", "object") else value) for name, value in types}


def _required(schema: _Schema) -> list[str]:
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _property(schema: _Schema, name: str) -> object:
    properties = schema.get("properties")

    if isinstance(properties, Mapping) and name in properties:
        return properties[name]

    return True if "patternProperties" in schema else schema.get("additionalProperties", True)
