"""The list of rows is complete: nothing is unproved, and nothing is named that is not there."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.contract.row import Row
from tests.contract.rows import ROWS
from tests.contract.test_cases import CASES

TESTS = Path(__file__).parents[1]


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_a_row_is_proved_or_says_why_not(row: Row) -> None:
    has_cases = any(case.row == row.id for case in CASES)

    if row.later is None:
        assert has_cases or row.tests
    else:
        assert not has_cases
        assert not row.tests


@pytest.mark.parametrize("named", sorted({test for row in ROWS for test in row.tests}))
def test_a_test_that_is_named_is_there(named: str) -> None:
    file, _, name = named.partition("::")
    assert name in functions_of(file)


def test_rows_have_ids_of_their_own() -> None:
    ids = [row.id for row in ROWS]
    assert len(set(ids)) == len(ids)


def test_a_case_belongs_to_a_row() -> None:
    assert {case.row for case in CASES} <= {row.id for row in ROWS}
