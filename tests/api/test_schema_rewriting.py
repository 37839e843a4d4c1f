"""Schemas for the compiler: what is kept, what is narrowed, and what is refused with its place."""

import contextlib
import time
from typing import Any

import jsonschema
import pytest

from prism.api.schema_faults import SchemaUnsupported
from prism.api.schema_rewriting import compiler_schema

LIMIT = 2**53 - 1
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}


def refused(schema: dict[str, Any]) -> SchemaUnsupported:
    with pytest.raises(SchemaUnsupported) as caught:
        compiler_schema(schema)

    return caught.value


def test_annotations_and_unknown_words_are_dropped() -> None:
    schema = {"type": "string", "title": "T", "default": "x", "nullable": True, "x-order": 1, "format": "password"}
    assert compiler_schema(schema) == {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "is_closed"),
    [
        ({"properties": {"a": True}}, True),
        ({"properties": {}}, True),
        ({"properties": {"a": True}, "required": ["b"]}, False),
        ({"type": "object"}, False),
        ({"properties": {"a": True}, "additionalProperties": True}, False),
        ({"properties": {"a": True}, "anyOf": [{"required": ["b"]}, {}]}, False),
    ],
)
def test_an_object_that_lists_its_properties_has_no_others(schema: dict[str, Any], is_closed: bool) -> None:
    assert (compiler_schema(schema).get("additionalProperties") is False) is is_closed


def test_objects_of_which_several_schemas_speak_are_left_open() -> None:
    a, b = {"properties": {"a": {"properties": {"x": True}}}}, {"properties": {"a": {"properties": {"y": True}}}}
    both = compiler_schema({"allOf": [a, b]})["allOf"]
    alone = compiler_schema({"allOf": [a]})["allOf"]

    assert "additionalProperties" not in str(both)
    assert str(alone).count("'additionalProperties': False") == 2


def test_a_definition_that_is_used_in_both_ways_is_there_twice() -> None:
    schema = {"anyOf": [{"$ref": "#/$defs/o"}, {"allOf": [{"$ref": "#/$defs/o"}, {"required": ["b"]}]}]}
    rewritten = compiler_schema(schema | {"$defs": {"o": {"properties": {"a": True}}, "unused": {"not": {}}}})

    definitions = rewritten["$defs"]
    assert isinstance(definitions, dict)
    assert sorted("additionalProperties" in definition for definition in definitions.values()) == [False, True]


@pytest.mark.parametrize(
    ("reference", "more"),
    [
        ("#/$defs/a%20b~1c~0d", {"$defs": {"a b/c~d": {"type": "null"}}}),
        ("#/components/schemas/N", {"components": {"schemas": {"N": {"type": "null"}}}}),
        ("#here", {"$defs": {"x": {"$anchor": "here", "type": "null"}}}),
        ("#/anyOf/1", {"anyOf": [True, {"type": "null"}]}),
    ],
)
def test_references_are_followed_wherever_they_lead_inside(reference: str, more: dict[str, Any]) -> None:
    rewritten = compiler_schema({"properties": {"a": {"$ref": reference}}, **more})
    definitions = rewritten["$defs"]
    assert isinstance(definitions, dict)
    assert list(definitions.values()) == [{"type": "null"}]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, (-LIMIT, LIMIT)),
        ({"type": "integer", "minimum": 0.5, "exclusiveMaximum": 3}, (1, 2)),
        ({"type": ["integer", "null"], "exclusiveMinimum": -2.5}, (-2, LIMIT)),
        ({"type": "integer", "maximum": 10**30}, (-LIMIT, LIMIT)),
        ({"type": "number", "exclusiveMinimum": 100, "maximum": 101}, (100.00000000001, 101)),
        ({"type": "number", "exclusiveMaximum": 0.3}, (-(10**18), 0.299999999999)),
        ({"type": "number", "minimum": 0.1}, (0.1, 10**18)),
        ({"type": "number", "minimum": 1e-300, "maximum": 1}, (1e-12, 1)),
        ({"type": "number", "multipleOf": 0.25}, (0, LIMIT)),
    ],
)
def test_bounds_of_numbers(schema: dict[str, Any], expected: tuple[float, float]) -> None:
    rewritten = compiler_schema(schema)

    assert (rewritten["minimum"], rewritten["maximum"]) == expected
    jsonschema.Draft202012Validator(schema | {"type": "number"}).validate(rewritten["minimum"])
    jsonschema.Draft202012Validator(schema | {"type": "number"}).validate(rewritten["maximum"])


def test_a_free_number_may_have_an_exponent_except_where_it_may_not() -> None:
    assert compiler_schema({"type": "number"}) == {"type": "number"}
    assert compiler_schema({"type": "number"}, has_plain_numbers=True)["maximum"] == 10**18


@pytest.mark.parametrize(
    ("schema", "path", "words"),
    [
        ({"not": {}}, "#", "'not'"),
        ({"items": {"uniqueItems": True}}, "#/items", "'uniqueItems'"),
        ({"properties": {"a": {"if": {}, "then": {}}}}, "#/properties/a", "'if'"),
        ({"anyOf": [True, {"propertyNames": {"maxLength": 1}}]}, "#/anyOf/1", "'propertyNames'"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"contains": True}}}, "#/$defs/a", "'contains'"),
        ({"dependentRequired": {"a": ["b"]}}, "#", "'dependentRequired'"),
        ({"unevaluatedProperties": False}, "#", "'unevaluatedProperties'"),
        ({"type": "any"}, "#", "'any'"),
        ({"type": ["string", 3]}, "#", "'3'"),
        ({"properties": {"a": 3}}, "#/properties/a", "is no schema"),
        ({"properties": []}, "#", "no object"),
        ({"anyOf": []}, "#", "no list"),
        ({"enum": []}, "#", "'enum'"),
        ({"required": "a"}, "#", "'required'"),
        ({"minItems": 20_000}, "#", "above 10000"),
        ({"minLength": "3"}, "#", "'minLength'"),
        ({"minimum": True}, "#", "no number"),
        ({"multipleOf": 0}, "#", "above 0"),
        ({"multipleOf": 0.1}, "#", "only whole numbers"),
        ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}, "#", "no number"),
        ({"type": "number", "minimum": 10**20}, "#", "no number"),
        ({"minProperties": 2}, "#", "'minProperties'"),
        ({"patternProperties": {"a": True}, "allOf": [{"minProperties": 1}]}, "#", "'patternProperties'"),
        ({"properties": {f"p{n}": True for n in range(401)}}, "#", "optional properties"),
        ({"format": "idn-email"}, "#", "'idn-email'"),
        ({"pattern": 3}, "#", "no text"),
        ({"$ref": "other.json"}, "#", "only references inside"),
        ({"$ref": "file:///etc/passwd"}, "#", "only references inside"),
        ({"$ref": "#/title", "title": "t"}, "#", "no schema"),
        ({"properties": {"a": {"$id": "x"}}}, "#/properties/a", "'$id'"),
        ({"$ref": "#"}, "#", "without an end"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, True]}}}, "#", "without an end"),
        (
            {"$ref": "#/$defs/node", "$defs": {"node": NODE | {"type": "object", "required": ["next"]}}},
            "#",
            "without an end",
        ),
        ({"type": "array", "minItems": 1, "items": {"$ref": "#"}}, "#", "without an end"),
    ],
)
def test_what_cannot_be_enforced_is_refused_with_its_place(schema: dict[str, Any], path: str, words: str) -> None:
    error = refused(schema)

    assert error.path == path
    assert words in str(error)


@pytest.mark.parametrize(
    "schema",
    [
        {"uniqueItems": False, "not": False, "propertyNames": True, "unevaluatedItems": {}},
        {"uniqueItems": True, "maxItems": 1},
        {"then": {}, "else": {}},
        {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
        {"type": ["array", "null"], "minItems": 1, "items": {"$ref": "#"}},
        {"minProperties": 2, "required": ["a", "b"]},
        {"type": "number", "multipleOf": 0.125},
        {"type": "integer", "multipleOf": 0.5},
        {"items": [{"type": "null"}], "additionalItems": False},
        {"minLength": 3.0, "maxLength": 10**12, "maxItems": 10**12},
    ],
)
def test_what_only_looks_impossible_is_taken(schema: dict[str, Any]) -> None:
    compiler_schema(schema)


def cat(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"kind": {"const": "cat"}}, "required": ["kind"], **more}


def having(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: True}, "required": [name]}


def dog(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"kind": {"enum": ["dog", "wolf"]}}, **more}


@pytest.mark.parametrize(
    ("choices", "is_taken"),
    [
        ([{"type": "string"}, {"type": "integer"}], True),
        ([{"type": "number"}, {"type": "integer"}], False),
        ([{"const": 1}, {"const": True}], True),
        ([{"enum": ["a", "b"]}, {"enum": ["c", "b"]}], False),
        ([cat(), dog()], True),
        ([cat(required=[]), dog()], False),
        ([cat(type=["object", "null"]), dog(type=["object", "null"])], False),
        ([having("a"), having("b")], True),
        ([having("a"), {"type": "object", "required": ["b"]}], False),
        ([{"properties": {"a": True}, "type": "object"}, {"type": "object", "properties": {"b": True}}], False),
        ([{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}], True),
        ([{"anyOf": [{"type": "null"}, {"type": "string"}]}, {"type": "boolean"}], True),
        ([True, {"type": "boolean"}], False),
        ([{"type": "boolean"}], True),
    ],
)
def test_one_of_is_any_of_where_no_two_can_both_fit(choices: list[Any], is_taken: bool) -> None:
    schema = {"oneOf": choices, "$defs": {"cat": cat(), "dog": dog()}}

    if is_taken:
        assert "anyOf" in compiler_schema(schema)
    else:
        assert "might both fit" in str(refused(schema))


def test_dates_are_such_as_every_calendar_has() -> None:
    pattern = compiler_schema({"type": "string", "format": "date"})["pattern"]

    jsonschema.validate("2024-02-28", {"pattern": pattern})
    assert not jsonschema.Draft202012Validator({"pattern": pattern}).is_valid("2023-02-29")


def nested_choices() -> dict[str, Any]:
    schema: dict[str, Any] = {"oneOf": [{"type": "null"}, {"type": "boolean"}]}

    for number in range(30):
        name = f"p{number}"
        schema = {"oneOf": [schema, {"type": "object", "properties": {name: schema}, "required": [name]}]}

    return schema


BOMBS: dict[str, dict[str, Any]] = {
    "nested choices": nested_choices(),
    "many choices": {"oneOf": [{"const": number} for number in range(15_000)]},
    "many values": {"oneOf": [{"enum": [*range(30_000)]}, {"enum": [*range(30_000, 60_000)]}]},
    "many properties": {
        "required": [f"p{n}" for n in range(30_000)],
        "properties": {f"p{n}": True for n in range(15_000)},
    },
    "a chain": {
        "$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(15_000)} | {"d15000": True},
        "$ref": "#/$defs/d0",
    },
    "a ring": {
        "$defs": {f"d{n}": {"items": {"$ref": f"#/$defs/d{(n + 1) % 900}"}} for n in range(900)},
        "$ref": "#/$defs/d0",
    },
    "many schemas": {"anyOf": [{"type": "string"}] * 30_000},
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_schema_that_is_made_to_cost_time_costs_little(name: str) -> None:
    began = time.process_time()

    with contextlib.suppress(SchemaUnsupported):
        compiler_schema(BOMBS[name])

    assert time.process_time() - began < 2
