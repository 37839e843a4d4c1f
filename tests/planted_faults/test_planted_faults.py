"""The list of faults fits the product, and the harness tells the noticed from the unnoticed. The faults themselves are planted by hand."""

import ast
import functools
from collections import Counter
from pathlib import Path

import pytest

from tests.planted_faults.catalogue import FAULTS
from tests.planted_faults.fault import Fault, TextNotFound
from tests.planted_faults.judge import Judgement, Verdict, judge_all

ROOT = Path(__file__).parents[2]
# A product of one line, and a suite of one test.
PRODUCT = "def twice(number: int) -> int:\n    return number * 2\n"
SUITE = "from product import twice\n\n\ndef test_two_is_doubled() -> None:\n    assert twice(2) == 4\n"


@functools.cache
def names_of_tests(file: str) -> frozenset[str]:
    """Return the tests of a file, as pytest would name them."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def why_unfit(fault: Fault) -> str | None:
    """Return why a fault cannot be planted any more; None when it can."""
    try:
        faulty = fault.content_in(ROOT)
        ast.parse(faulty)
    except (TextNotFound, SyntaxError) as error:
        return f"{fault.name}: {error}"

    return f"{fault.name}: changes nothing" if fault.text == fault.planted else None


def test_each_fault_still_fits_its_file() -> None:
    assert [reason for fault in FAULTS if (reason := why_unfit(fault)) is not None] == []


def is_a_test(name: str) -> bool:
    file, _, test = name.partition("::")
    return (ROOT / file).is_file() and (test in names_of_tests(file) if test else bool(names_of_tests(file)))


def test_each_fault_names_tests_that_there_are() -> None:
    assert [fault.name for fault in FAULTS if not fault.tests] == []
    assert [(fault.name, test) for fault in FAULTS for test in fault.tests if not is_a_test(test)] == []


def test_no_two_faults_have_one_name() -> None:
    assert [name for name, count in Counter(fault.name for fault in FAULTS).items() if count > 1] == []


def make_fault(name: str, text: str, planted: str) -> Fault:
    return Fault(name=name, says="", file="product.py", text=text, planted=planted, tests=("test_product.py",))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with the product and its suite."""
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "product.py").write_text(PRODUCT)
    (folder / "test_product.py").write_text(SUITE)
    (folder / "pyproject.toml").write_text('[tool.pytest.ini_options]\ntestpaths = ["."]\n')
    return folder


def by_name(judgements: list[Judgement]) -> dict[str, tuple[Verdict, str]]:
    return {judgement.fault.name: (judgement.verdict, judgement.told_by) for judgement in judgements}


# Six times an interpreter and pytest, on whatever machine.
@pytest.mark.timeout(180)
def test_a_harmless_change_is_unnoticed_and_a_harmful_one_is_noticed(tree: Path) -> None:
    faults = (
        make_fault("harmless", "number * 2", "2 * number"),
        make_fault("harmful", "number * 2", "number * 3"),
        make_fault("no program", "return", "return return"),
        make_fault("rotten", "number ** 2", "number"),
    )
    assert by_name(list(judge_all(tree, faults))) == {
        "harmless": (Verdict.UNNOTICED, "all its tests stay green"),
        "harmful": (Verdict.NOTICED, "test_product.py::test_two_is_doubled"),
        "no program": (Verdict.NO_VERDICT, "pytest ended with 2"),
        "rotten": (Verdict.TEXT_NOT_FOUND, "rotten: its text stands 0 times in product.py"),
    }
    assert (tree / "product.py").read_text() == PRODUCT, "only the copy is changed"


@pytest.mark.timeout(180)
def test_a_fault_whose_tests_fail_without_it_proves_nothing(tree: Path) -> None:
    (tree / "test_product.py").write_text(SUITE.replace("== 4", "== 5"))
    fault = make_fault("harmful", "number * 2", "number * 3")
    verdicts = by_name(list(judge_all(tree, (fault,))))
    assert verdicts == {"harmful": (Verdict.RED_BEFORE, "test_product.py::test_two_is_doubled")}


def test_a_text_that_stands_there_twice_is_no_place_for_a_fault(tree: Path) -> None:
    with pytest.raises(TextNotFound, match="number: its text stands 2 times"):
        make_fault("number", "number", "figure").content_in(tree)
