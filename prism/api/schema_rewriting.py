"""A client's JSON Schema -> one that the engine's grammar compiler keeps to the letter. Called by the chat handler; pure.

Every answer that fits the result fits the client's schema; the result may be narrower. What cannot be enforced is refused here, with its
place, and never left out in silence. What is narrowed:

- an object that lists its properties, and does not say whether it may have others, has no others;
- whole numbers stay within 53 bits, exclusive bounds and patterns as `schema_numbers.py` and `schema_patterns.py` say;
- lists have at most 10,000 items, texts at most a million characters.

Annotations and unknown keywords constrain nothing, as the standard has it, and are dropped.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from prism.api.schema_disjoint import Comparison
from prism.api.schema_faults import SchemaUnsupported
from prism.api.schema_finite import REFERENCE_PREFIX, has_circle, is_endless
from prism.api.schema_keywords import OBJECT_KEYS, check_types, plain_keywords, refuse_unenforceable
from prism.api.schema_numbers import NUMBER_KEYS, number_bounds
from prism.api.schema_objects import object_keywords
from prism.api.schema_references import References

Schema: TypeAlias = Mapping[str, object]
_Rewritten: TypeAlias = dict[str, object] | bool
_Rewrite: TypeAlias = Callable[[object, str], _Rewritten]

MAX_SUBSCHEMAS: Final = 20_000
MAX_DEFINITIONS: Final = 1_000
_APPLICATORS: Final = ("anyOf", "oneOf", "allOf", "$ref")
_ARRAY_KEYS: Final = ("items", "prefixItems")


def compiler_schema(schema: Schema, *, has_plain_numbers: bool = False) -> dict[str, object]:
    """Return the schema for the compiler. Raises SchemaUnsupported.

    has_plain_numbers: numbers are written without exponents, so that each is one that any program can hold.
    """
    return _Rewriting(schema, has_plain_numbers=has_plain_numbers).run()


class _Rewriting:
    """One schema on its way. Each target of a reference becomes a definition, once for each way in which it is used."""

    def __init__(self, schema: Schema, *, has_plain_numbers: bool) -> None:
        self._schema = schema
        self._has_plain_numbers = has_plain_numbers
        self._references = References(schema)
        self._names: dict[tuple[int, bool], str] = {}
        self._pending: list[tuple[str, object, bool, str]] = []
        self._definitions: dict[str, object] = {}
        self._count = 0
        # Choices whose difference can be judged when all definitions are known.
        self._choices: list[tuple[list[_Rewritten], list[_Rewritten], str]] = []

    def run(self) -> dict[str, object]:
        root = self._rewrite(self._schema, "#", is_shared=False)
        assert isinstance(root, dict)

        while self._pending:
            name, target, is_shared, path = self._pending.pop()
            self._definitions[name] = self._rewrite(target, path, is_shared=is_shared)

        if self._definitions and (has_circle(self._definitions) or is_endless(root, self._definitions)):
            raise SchemaUnsupported("#", "refers to itself without an end: no answer could ever fit it")

        comparison = Comparison(self._definitions)

        for narrow, wide, path in self._choices:
            _check_choices(comparison, narrow, wide, path)

        return {**root, "$defs": self._definitions} if self._definitions else root

    def _rewrite(self, schema: object, path: str, *, is_shared: bool) -> _Rewritten:
        """is_shared: another schema has a say about the same value, so that this one may not close its objects to properties."""
        if isinstance(schema, bool):
            return schema

        if not isinstance(schema, Mapping):
            raise SchemaUnsupported(path, "is no schema: it must be an object, true or false")

        self._count += 1

        if self._count > MAX_SUBSCHEMAS:
            raise SchemaUnsupported("#", f"has more than {MAX_SUBSCHEMAS} schemas in it")

        check_types(schema, path)
        refuse_unenforceable(schema, path)
        result = plain_keywords(schema, path)
        result |= _numbers(schema, path, is_plain=self._has_plain_numbers)
        is_alone = not is_shared and not any(key in schema for key in _APPLICATORS)
        inside = partial(self._rewrite, is_shared=not is_alone)
        result |= self._arrays(schema, path, inside)
        result |= object_keywords(schema, path, inside, may_close=is_alone)
        return result | self._applicators(schema, path, is_shared=is_shared or _says_much(schema))

    def _arrays(self, schema: Schema, path: str, rewrite: _Rewrite) -> dict[str, object]:
        items, prefix = schema.get("items"), schema.get("prefixItems")
        items_path = f"{path}/items"

        if isinstance(items, list):
            # A tuple, as older drafts have it.
            items, prefix, items_path = schema.get("additionalItems"), items, f"{path}/additionalItems"

        result: dict[str, object] = {}

        if isinstance(prefix, list):
            result["prefixItems"] = [rewrite(part, f"{path}/prefixItems/{n}") for n, part in enumerate(prefix)]

        if items is not None:
            result["items"] = rewrite(items, items_path)

        return result

    def _applicators(self, schema: Schema, path: str, *, is_shared: bool) -> dict[str, object]:
        result: dict[str, object] = {}

        if "$ref" in schema:
            result["$ref"] = self._reference(schema["$ref"], path, is_shared=is_shared)

        if "allOf" in schema:
            parts = _parts(schema, "allOf", path)
            is_many = is_shared or len(parts) > 1
            result["allOf"] = [
                self._rewrite(part, f"{path}/allOf/{n}", is_shared=is_many) for n, part in enumerate(parts)
            ]

        for key in ("anyOf", "oneOf"):
            if key in schema:
                choices = self._choices_of(schema, key, path, is_shared=is_shared)

                if "anyOf" in result:
                    both = result.get("allOf", [])
                    assert isinstance(both, list)
                    result["allOf"] = [*both, {"anyOf": choices}]
                else:
                    result["anyOf"] = choices

        return result

    def _choices_of(self, schema: Schema, key: str, path: str, *, is_shared: bool) -> list[_Rewritten]:
        parts = list(enumerate(_parts(schema, key, path)))
        narrow = [self._rewrite(part, f"{path}/{key}/{n}", is_shared=is_shared) for n, part in parts]

        if key == "oneOf" and len(parts) > 1:
            # An answer fits one choice as it was narrowed; it must fit none of the others as the client wrote them.
            wide = (
                narrow if is_shared else [self._rewrite(part, f"{path}/{key}/{n}", is_shared=True) for n, part in parts]
            )
            self._choices.append((narrow, wide, path))

        return narrow

    def _reference(self, reference: object, path: str, *, is_shared: bool) -> str:
        target = self._references.target(reference, path)
        key = (id(target), is_shared)

        if key not in self._names:
            if len(self._names) >= MAX_DEFINITIONS:
                raise SchemaUnsupported("#", f"refers to more than {MAX_DEFINITIONS} schemas in it")

            self._names[key] = f"d{len(self._names)}"
            self._pending.append((self._names[key], target, is_shared, str(reference)))

        return REFERENCE_PREFIX + self._names[key]


def _says_much(schema: Schema) -> bool:
    """Whether more than one keyword speaks of the inside of the same value."""
    return sum(key in schema for key in (*_APPLICATORS, *OBJECT_KEYS, *_ARRAY_KEYS)) > 1


def _numbers(schema: Schema, path: str, *, is_plain: bool) -> dict[str, object]:
    named = schema.get("type")
    types = {named} if isinstance(named, str) else set(named) if isinstance(named, list) else set()
    is_integer = "integer" in types and "number" not in types
    is_bounded = any(key in schema for key in NUMBER_KEYS)

    # With values that are named one by one there is nothing to bound.
    is_free = "const" not in schema and "enum" not in schema
    needs_bounds = is_free and (is_integer or (is_plain and "number" in types))
    return number_bounds(schema, path, is_integer=is_integer) if is_bounded or needs_bounds else {}


def _parts(schema: Schema, key: str, path: str) -> list[object]:
    parts = schema[key]

    if not isinstance(parts, list) or not parts:
        raise SchemaUnsupported(path, f"has a '{key}' that is no list of schemas")

    return parts


def _check_choices(comparison: Comparison, narrow: list[_Rewritten], wide: list[_Rewritten], path: str) -> None:
    for n, choice in enumerate(narrow):
        for m, other in enumerate(wide):
            if n != m and not comparison.are_disjoint(choice, other):
                first, second = sorted((n, m))
                raise SchemaUnsupported(
                    path,
                    f"has a 'oneOf' whose choices {first} and {second} might both fit: use 'anyOf', or make them differ",
                )
