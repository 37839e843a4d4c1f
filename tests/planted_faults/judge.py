"""Whether the suite notices a fault: its tests must be green without it, and one of them must fail with it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.planted_faults.bench import TEST_S, Bench, Run
from tests.planted_faults.fault import Fault, TextNotFound

_PYTEST_GREEN = 0
_PYTEST_RED = 1
# All tests of all faults together, without a fault.
_SOUND_RUN_S = 1200.0


class Verdict(StrEnum):
    """What became of a fault. Only the first one is good."""

    NOTICED = "noticed"
    UNNOTICED = "UNNOTICED"
    NO_VERDICT = "NO VERDICT"  # the tests could not be run to an end: a fault that breaks everything proves nothing
    RED_BEFORE = "RED BEFORE"  # its tests fail without it
    TEXT_NOT_FOUND = "TEXT NOT FOUND"


@dataclass(frozen=True, slots=True)
class Judgement:
    """told_by: the test that noticed it, or a word on what is wrong. seconds: that the run with the fault took. output: pytest's."""

    fault: Fault
    verdict: Verdict
    told_by: str
    seconds: float = 0.0
    output: str = ""


def judge_all(root: Path, faults: Sequence[Fault]) -> Iterator[Judgement]:
    """Judge one fault after the other, in a copy of the tree."""
    with Bench(root) as bench:
        red = _red_without_fault(bench, faults)

        for fault in faults:
            yield _judge(bench, fault, red)


def _red_without_fault(bench: Bench, faults: Sequence[Fault]) -> tuple[str, ...]:
    """Return the tests that fail although there is no fault, twice: a busy machine may fail one."""
    names = sorted({name for fault in faults for name in fault.tests})
    run = bench.run(names, bound_s=_SOUND_RUN_S)

    if run.status == _PYTEST_RED:
        run = bench.run(run.failed, bound_s=_SOUND_RUN_S)

    # Without a list of the ones that failed, each may have.
    return () if run.status == _PYTEST_GREEN else run.failed or tuple(names)


def _judge(bench: Bench, fault: Fault, red: Sequence[str]) -> Judgement:
    if found := [test for test in red if any(_is_part_of(test, name) for name in fault.tests)]:
        return Judgement(fault, Verdict.RED_BEFORE, found[0])

    try:
        with bench.planted(fault):
            run = bench.run(fault.tests, "-x", f"--timeout={TEST_S}")
    except TextNotFound as error:
        return Judgement(fault, Verdict.TEXT_NOT_FOUND, str(error))

    verdict, told_by = _read(run)
    return Judgement(fault, verdict, told_by, run.seconds, run.output)


def _read(run: Run) -> tuple[Verdict, str]:
    if run.status == _PYTEST_RED and run.failed:
        return Verdict.NOTICED, run.failed[0]

    if run.status == _PYTEST_GREEN:
        return Verdict.UNNOTICED, "all its tests stay green"

    return Verdict.NO_VERDICT, "pytest did not end" if run.status is None else f"pytest ended with {run.status}"


def _is_part_of(test: str, name: str) -> bool:
    return test == name or test.startswith((f"{name}::", f"{name}["))
