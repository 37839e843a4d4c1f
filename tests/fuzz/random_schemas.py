"""JSON Schemas as clients write them, made from a seed: every keyword that is enforced, in any nesting, now and then one that is not."""

import random
from collections.abc import Callable, Sequence
from typing import TypeAlias

Schema: TypeAlias = dict[str, object] | bool
_Make: TypeAlias = Callable[[int], Schema]

_NAMES = ("a", "b", "id", "name", "ключ", "日本", 'q"uote', "back\\slash", "emoji😀", "with space", "$ref", "")
_TEXTS = ("", "x", "yes", "no", "naïve", "日本語", "a\nb", 'say "hi"', "\\", "😀", "null", "0", "\u007f", "\t")
_PATTERNS = (
    *(r"^[a-z]{1,4}$", r"^\d{3}-\d{4}$", r"^[^\"\\]{0,6}$", r"^(?:red|green|blue)$", r"^\w+$", r"^\S{1,5}$", r"[0-9]$"),
    *(
        r"^\$\d{1,3}\.\d\d$",
        r"^[A-Z][a-z]*( [A-Z][a-z]*)?$",
        r"^#[0-9a-fA-F]{6}$",
        r"^[^,]{2}$",
        r"^.{2,4}$",
        r"^\W{2}$",
    ),
)
_FORMATS = ("date", "time", "date-time", "uuid", "ipv4", "email", "duration", "path", "password")
_BOUNDS = (-10, -1.5, 0, 0.1, 1, 2.75, 7, 100, 1e-9, 12345.678)


def random_schema(seed: int) -> dict[str, object]:
    """Return the schema of this number, the same each time."""
    return _Maker(random.Random(seed)).document()


class _Maker:
    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._definitions: Sequence[str] = []

    def document(self) -> dict[str, object]:
        pick = self._source
        self._definitions = [f"d{n}" for n in range(pick.choice((0, 0, 1, 2)))]
        root = self._schema(3)
        schema: dict[str, object] = root if isinstance(root, dict) else {"anyOf": [root, {"type": "null"}]}

        if self._definitions:
            schema["$defs"] = {name: self._schema(2) for name in self._definitions}

        if pick.random() < 0.3:
            schema |= {"title": "T", "description": "words", "$schema": "https://json-schema.org/draft/2020-12/schema"}

        return schema

    def _schema(self, depth: int) -> Schema:
        pick = self._source
        simple: list[_Make] = [self._string, self._number, self._integer, self._value, self._values]
        nested: list[_Make] = [self._object, self._object, self._array, self._choice, self._both]

        if self._definitions:
            nested.append(self._reference)

        return pick.choice(simple + nested * 2 if depth > 0 else simple)(depth - 1)

    def _string(self, depth: int) -> Schema:
        pick = self._source
        schema: dict[str, object] = {"type": "string"}

        match pick.randrange(5):
            case 0:
                schema["pattern"] = pick.choice(_PATTERNS)
            case 1:
                schema["format"] = pick.choice(_FORMATS)
            case 2:
                least = pick.randrange(4)
                schema |= {"minLength": least, "maxLength": least + pick.randrange(8)}
            case _:
                schema["maxLength"] = pick.randrange(12)

        return schema

    def _number(self, depth: int) -> Schema:
        return {"type": "number", **self._bounds(), **({"multipleOf": 0.25} if self._source.random() < 0.2 else {})}

    def _integer(self, depth: int) -> Schema:
        pick = self._source
        return {
            "type": "integer",
            **self._bounds(),
            **({"multipleOf": pick.choice((2, 7))} if pick.random() < 0.2 else {}),
        }

    def _bounds(self) -> dict[str, object]:
        pick = self._source
        low = pick.choice(_BOUNDS)
        bounds: dict[str, object] = {}

        if pick.random() < 0.6:
            bounds[pick.choice(("minimum", "exclusiveMinimum"))] = low

        if pick.random() < 0.6:
            bounds[pick.choice(("maximum", "exclusiveMaximum"))] = low + pick.choice((0, 0.5, 1, 20, 1e6))

        return bounds

    def _value(self, depth: int) -> Schema:
        pick = self._source
        values: tuple[Schema, ...] = (
            {"type": "boolean"},
            {"type": "null"},
            {"const": pick.choice((*_TEXTS, 1, 2.5, None, True, [1, "a"], {"k": [None]}))},
            {"type": ["string", "null"], "maxLength": 4},
            {"type": ["integer", "boolean"]},
            {"maxLength": 3, "type": "string", "nullable": True, "x-order": 1},
        )
        return pick.choice(values)

    def _values(self, depth: int) -> Schema:
        pick = self._source
        values: list[object] = [*pick.sample(_TEXTS, 3), *pick.sample((0, 1, -2.5, None, True, [], {}), 2)]
        return {"enum": values, **({"type": "string"} if pick.random() < 0.3 else {})}

    def _object(self, depth: int) -> Schema:
        pick = self._source
        names = pick.sample(_NAMES, pick.randrange(4))
        schema: dict[str, object] = {"type": "object", "properties": {name: self._schema(depth) for name in names}}

        if pick.random() < 0.7:
            schema["required"] = [name for name in names if pick.random() < 0.7]

        match pick.randrange(6):
            case 0 | 1:
                schema["additionalProperties"] = False
            case 2:
                schema["additionalProperties"] = self._schema(0)
            case 3 if not names:
                schema["patternProperties"] = {"^x[0-9]$": self._schema(0)}
                schema["additionalProperties"] = False
            case _:
                pass

        if not names and pick.random() < 0.3:
            schema |= {"minProperties": pick.randrange(2), "maxProperties": pick.randrange(1, 4)}

        return schema

    def _array(self, depth: int) -> Schema:
        pick = self._source
        schema: dict[str, object] = {"type": "array", "maxItems": pick.randrange(1, 4)}

        if pick.random() < 0.8:
            schema["items"] = self._schema(depth)

        if pick.random() < 0.3:
            schema["prefixItems"] = [self._schema(0) for _ in range(pick.randrange(1, 3))]

        if pick.random() < 0.4:
            schema["minItems"] = 1

        return schema

    def _choice(self, depth: int) -> Schema:
        pick = self._source

        if pick.random() < 0.3:
            return {
                "oneOf": [self._tagged(depth, tag) for tag in ("cat", "dog")],
                "discriminator": {"propertyName": "t"},
            }

        key = pick.choice(("anyOf", "anyOf", "oneOf"))
        return {key: [self._schema(depth) for _ in range(pick.randrange(1, 4))]}

    def _tagged(self, depth: int, tag: str) -> Schema:
        properties = {"t": {"const": tag, "type": "string"}, "v": self._schema(depth)}
        return {"type": "object", "properties": properties, "required": ["t"]}

    def _both(self, depth: int) -> Schema:
        pick = self._source
        left, right = self._object(depth), self._object(depth)
        both: tuple[Schema, ...] = (
            {"allOf": [left, right]},
            {"allOf": [left]},
            {**(left if isinstance(left, dict) else {}), "anyOf": [right, self._object(0)]},
            {"allOf": [self._integer(0), self._number(0)]},
            {"allOf": [{"type": "string", "maxLength": 5}, self._string(0)]},
        )
        return pick.choice(both)

    def _reference(self, depth: int) -> Schema:
        pick = self._source
        reference = {"$ref": f"#/$defs/{pick.choice(self._definitions)}"}
        ways: tuple[Schema, ...] = (
            {**reference},
            {"anyOf": [reference, {"type": "null"}]},
            {**reference, "description": "d"},
        )
        return pick.choice(ways)
