"""What a `$ref` leads to. Called by `schema_rewriting.py`; pure. References stay inside the schema: nothing is ever fetched."""

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote

from prism.api.schema_faults import SchemaUnsupported

_ROOT: Final = "#"


class References:
    """Finds the targets of one schema's references."""

    def __init__(self, root: Mapping[str, object]) -> None:
        self._root = root
        self._anchors: dict[str, object] | None = None
        self._is_named = isinstance(root.get("$id"), str)

    def target(self, reference: object, path: str) -> object:
        """Return the schema that `reference` means. Raises SchemaUnsupported when it leads nowhere, or out of the schema."""
        if not isinstance(reference, str):
            raise SchemaUnsupported(path, "has a '$ref' that is no text")

        if self._is_named and reference == self._root.get("$id"):
            reference = _ROOT

        if not reference.startswith(_ROOT):
            raise SchemaUnsupported(
                path, f"refers to '{reference[:80]}': only references inside the schema are followed"
            )

        fragment = unquote(reference[1:])
        target = self._pointed(fragment) if not fragment or fragment.startswith("/") else self._anchored(fragment)

        if not isinstance(target, Mapping | bool):
            raise SchemaUnsupported(path, f"refers to '{reference[:80]}', which is no schema")

        return target

    def _pointed(self, pointer: str) -> object:
        at: object = self._root

        for step in pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")

            if isinstance(at, Mapping):
                at = at.get(key)
            elif isinstance(at, list) and key.isdecimal() and len(key) < 8:
                at = at[int(key)] if int(key) < len(at) else None
            else:
                return None

        return at

    def _anchored(self, name: str) -> object:
        if self._anchors is None:
            self._anchors = dict(_anchors(self._root))

        return self._anchors.get(name)


def _anchors(root: object) -> Iterator[tuple[str, object]]:
    level = [root]

    while level:
        value = level.pop()

        if isinstance(value, Mapping):
            anchor = value.get("$anchor")

            if isinstance(anchor, str):
                yield anchor, value

            level.extend(value.values())
        elif isinstance(value, list):
            level.extend(value)
