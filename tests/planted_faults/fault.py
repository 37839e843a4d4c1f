"""A fault that is put into the product on purpose, and what may be said of it. Values, and a look at files."""

from dataclasses import dataclass
from pathlib import Path


class TextNotFound(Exception):
    """The text that a fault replaces does not stand in its file exactly once: the product has changed, the fault must follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One change to one file.

    says: what is wrong with the product then. file: from the root of the tree.
    text: what is replaced; stands in the file exactly once. planted: what it is replaced by.
    tests: files, or tests of a file, that must not stay green: few enough to take seconds.
    """

    name: str
    says: str
    file: str
    text: str
    planted: str
    tests: tuple[str, ...]

    def content_in(self, root: Path) -> str:
        """Return the file with the fault in it. Raises TextNotFound."""
        path = root / self.file
        content = path.read_text(encoding="utf-8") if path.is_file() else ""

        if (count := content.count(self.text)) != 1:
            raise TextNotFound(f"{self.name}: its text stands {count} times in {self.file}")

        return content.replace(self.text, self.planted)
