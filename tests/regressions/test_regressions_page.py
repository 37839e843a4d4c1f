"""docs/regressions.md is complete, and every test that it names is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.contract.test_cases import CASES

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "regressions.md").read_text(encoding="utf-8")

REPORTS = (
    *(52, 53, 54, 55, 56, 58, 59, 60, 61, 62, 63, 65, 67, 70, 71, 73, 74, 75, 76, 78, 80, 81, 82, 83, 85, 87, 88, 89),
    *(90, 91, 93, 94, 95, 96, 97, 98, 100, 101, 103, 104, 105, 108, 109, 110, 111, 117, 119, 121, 122, 123, 124, 125),
    *(131, 132, 133, 136),
)
EXPECTED = {f"B-{n:02}" for n in range(1, 85)} | {f"D-{n:02}" for n in range(1, 65)} | {f"C-{n}" for n in REPORTS}
ID = re.compile(r"\b[BCD]-\d{2,3}\b")
NAMED = re.compile(r"`([a-z_]+/[a-z_0-9]+\.py)::([a-z_0-9]+)(?:\[([a-z_.-]+)\])?`")
THE_ROW = "test_the_row_holds"


def rows() -> list[tuple[str, str, str]]:
    """Return the cells of each row that has three, its ids being the first."""
    cells = [line.strip("|").split(" | ") for line in PAGE.splitlines() if ID.match(line.lstrip("|[ "))]
    return [(row[0], row[1], row[2]) for row in cells if len(row) == 3]


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in nodes)


def ids_of_page() -> list[str]:
    tables = [line for line in PAGE.splitlines() if line.startswith("| ")]
    return [found for line in tables for found in ID.findall(line.split(" | ")[0])]


def test_every_fault_is_on_the_page_once() -> None:
    found = ids_of_page()
    assert sorted(found) == sorted(EXPECTED)


def test_every_row_says_what_proves_it() -> None:
    proved = rows()
    assert len(proved) > 100
    assert [cells[0] for cells in proved if not NAMED.search(cells[2])] == []
    # Nothing but names that were understood.
    assert {NAMED.sub("", cells[2]).strip() for cells in proved} == {""}


def named_tests() -> list[tuple[str, str, str]]:
    """Return file, name, and row of the contract (empty where none is named)."""
    return [named for _, _, proof in rows() for named in NAMED.findall(proof)]


@pytest.mark.parametrize("file", sorted({file for file, _, _ in named_tests()}))
def test_every_named_test_is_there(file: str) -> None:
    named = {(name, row) for found, name, row in named_tests() if found == file}
    assert [name for name, _ in sorted(named) if name not in functions_of(file)] == []
    wanted = {row for name, row in named if name == THE_ROW}
    assert wanted <= {case.row for case in CASES}
