"""JSON as a tree that can be damaged in ways that no dict allows: names that come twice, bytes that are no JSON."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(slots=True)
class Raw:
    """Bytes that are written as they are."""

    text: bytes


@dataclass(slots=True)
class Members:
    """An object: its names and values in order. A name may be Raw too."""

    pairs: list[tuple["str | Raw", "Node"]]


Node: TypeAlias = "Raw | Members | list[Node] | str | int | float | bool | None"
# The list of a parent, and the place in it.
Slot: TypeAlias = tuple[list[Any], int]


def tree_of(value: Any) -> Node:
    """Return JSON values as a tree of its own."""
    if isinstance(value, dict):
        return Members([(name, tree_of(part)) for name, part in value.items()])

    return [tree_of(part) for part in value] if isinstance(value, list) else value


def slots_of(node: Node) -> Iterator[Slot]:
    """Yield every place below a node where something stands."""
    parts: list[Any] = node.pairs if isinstance(node, Members) else node if isinstance(node, list) else []

    for place, part in enumerate(parts):
        yield parts, place
        yield from slots_of(part[1] if isinstance(part, tuple) else part)


def written(node: Node, *, is_ascii: bool = True) -> bytes:
    """Return the tree as bytes. is_ascii: with escapes for all else."""
    match node:
        case Raw(text):
            return text
        case Members(pairs):
            members = [
                written(name, is_ascii=is_ascii) + b":" + written(part, is_ascii=is_ascii) for name, part in pairs
            ]
            return b"{" + b",".join(members) + b"}"
        case list():
            return b"[" + b",".join(written(part, is_ascii=is_ascii) for part in node) + b"]"
        case _:
            return json.dumps(node, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
