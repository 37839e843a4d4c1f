"""A page of docs/ that names tests: its tables, and whether the tests are there. Read by the tests of such pages."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"`((?:[a-z_]+/)?[a-z_0-9]+\.py)::([a-z_0-9]+)(?:\[([a-z_.-]+)\])?`")
THE_ROW = "test_the_row_holds"


@dataclass(frozen=True, slots=True)
class Page:
    """Text of a page whose tables have ids of one form in their first column."""

    text: str
    id_form: re.Pattern[str]

    def ids(self) -> list[str]:
        """Return all ids of all tables, also those that share a row."""
        tables = [line for line in self.text.splitlines() if line.startswith("| ")]
        return [found for line in tables for found in self.id_form.findall(line.split(" | ")[0])]

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the cells of each row that has three, its ids being the first."""
        lines = [line for line in self.text.splitlines() if self.id_form.match(line.lstrip("|[ "))]
        cells = [line.strip("|").split(" | ") for line in lines]
        return [(row[0], row[1], row[2]) for row in cells if len(row) == 3]

    def named_tests(self) -> list[tuple[str, str, str]]:
        """Return file, name, and row of the contract (empty where none is named)."""
        return [named for _, _, proof in self.rows() for named in NAMED.findall(proof)]

    def files(self) -> list[str]:
        """Return the files of the named tests, each once."""
        return sorted({file for file, _, _ in self.named_tests()})

    def missing_tests(self, file: str) -> list[str]:
        """Return the tests that are named and not in the file."""
        named = {name for found, name, _ in self.named_tests() if found == file}
        return sorted(named - _functions_of(file))


def read_page(name: str, id_form: re.Pattern[str]) -> Page:
    """Return the page of docs/ with this name."""
    return Page((TESTS.parent / "docs" / name).read_text(encoding="utf-8"), id_form)


def assert_every_row_says_what_proves_it(page: Page) -> None:
    """Fail for a row without a test, and for anything beside tests in the third column."""
    assert [cells[0] for cells in page.rows() if not NAMED.search(cells[2])] == []
    assert {NAMED.sub("", cells[2]).strip() for cells in page.rows()} == {""}


@cache
def _functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in nodes)
