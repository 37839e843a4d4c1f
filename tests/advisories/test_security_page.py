"""docs/security.md names every class once, tests that are there, and all the tests of this folder."""

import ast
import re
from pathlib import Path

import pytest

from tests.regressions.page import TESTS, assert_every_row_says_what_proves_it, read_page

HERE = Path(__file__).parent
PAGE = read_page("security.md", re.compile(r"\bA\d\d\b"))


def test_every_class_is_on_the_page_once() -> None:
    assert sorted(PAGE.ids()) == [f"A{number:02}" for number in range(1, 42)]


def test_every_class_says_what_proves_it() -> None:
    assert len(PAGE.rows()) == len(PAGE.ids())
    assert_every_row_says_what_proves_it(PAGE)


@pytest.mark.parametrize("file", PAGE.files())
def test_every_named_test_is_there(file: str) -> None:
    assert PAGE.missing_tests(file) == []


def test_no_proof_is_left_out() -> None:
    named = {(file, name) for file, name, _ in PAGE.named_tests()}
    written = {
        (path.relative_to(TESTS).as_posix(), node.name)
        for path in HERE.glob("test_*.py")
        if path != Path(__file__)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    assert written - named == set()


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md", "docs/reliability.md"])
def test_the_page_is_found_from_the_others(page: str) -> None:
    assert "security.md" in (TESTS.parent / page).read_text(encoding="utf-8")
