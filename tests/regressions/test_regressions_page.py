"""docs/regressions.md is complete, and every test that it names is there."""

import re

import pytest

from tests.contract.test_cases import CASES
from tests.regressions.page import THE_ROW, assert_every_row_says_what_proves_it, read_page

REPORTS = (
    *(
        48,
        52,
        53,
        54,
        55,
        56,
        58,
        59,
        60,
        61,
        62,
        63,
        65,
        67,
        70,
        71,
        73,
        74,
        75,
        76,
        78,
        80,
        81,
        82,
        83,
        85,
        87,
        88,
        89,
    ),
    *(
        90,
        91,
        93,
        94,
        95,
        96,
        97,
        98,
        100,
        101,
        103,
        104,
        105,
        108,
        109,
        110,
        111,
        114,
        115,
        117,
        119,
        121,
        122,
        123,
        124,
        125,
    ),
    *(131, 132, 133, 136),
)
EXPECTED = {f"B-{n:02}" for n in range(1, 85)} | {f"D-{n:02}" for n in range(1, 65)} | {f"C-{n}" for n in REPORTS}
PAGE = read_page("regressions.md", re.compile(r"\b[BCD]-\d{2,3}\b"))


def test_every_fault_is_on_the_page_once() -> None:
    assert sorted(PAGE.ids()) == sorted(EXPECTED)


def test_every_row_says_what_proves_it() -> None:
    assert len(PAGE.rows()) > 100
    assert_every_row_says_what_proves_it(PAGE)


@pytest.mark.parametrize("file", PAGE.files())
def test_every_named_test_is_there(file: str) -> None:
    assert PAGE.missing_tests(file) == []
    wanted = {row for found, name, row in PAGE.named_tests() if found == file and name == THE_ROW}
    assert wanted <= {case.row for case in CASES}
