"""`python -m tests.planted_faults [--only NAME] [--list]`: put faults into a copy of the product, and see that the suite notices each.

Takes some minutes. Exit status 1 when a fault goes unnoticed, or cannot be judged.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.planted_faults.catalogue import FAULTS
from tests.planted_faults.fault import Fault
from tests.planted_faults.judge import Judgement, Verdict, judge_all
from tests.planted_faults.leftovers import adopt_orphans

_ROOT = Path(__file__).parents[2]
_OUTPUT_LINES = 60
_NAME_WIDTH = max(len(fault.name) for fault in FAULTS)


def main(arguments: Sequence[str]) -> int:
    """Run the command."""
    names = [fault.name for fault in FAULTS]
    parser = argparse.ArgumentParser(
        prog="python -m tests.planted_faults", description="See that the suite notices faults."
    )
    parser.add_argument(
        "--only", action="append", choices=names, metavar="NAME", help="one fault; may be given more than once"
    )
    parser.add_argument("--list", action="store_true", dest="is_list", help="name the faults, and run nothing")
    parser.add_argument("--verbose", action="store_true", help="show the end of what pytest said of each")
    flags = parser.parse_args(arguments)
    chosen = [fault for fault in FAULTS if not flags.only or fault.name in flags.only]

    if flags.is_list:
        _say(*(f"{fault.name:{_NAME_WIDTH}} {fault.says}" for fault in chosen))
        return 0

    adopt_orphans()
    return _judge(chosen, is_verbose=flags.verbose)


def _judge(faults: Sequence[Fault], *, is_verbose: bool) -> int:
    _say(f"{len(faults)} faults; first their tests without a fault", _row("fault", "verdict", "seconds", "told by"))
    bad = 0

    for judgement in judge_all(_ROOT, faults):
        is_good = judgement.verdict is Verdict.NOTICED
        bad += not is_good
        _say(_row(judgement.fault.name, judgement.verdict, f"{judgement.seconds:.1f}", judgement.told_by))

        if is_verbose or not is_good:
            _say(*_end_of_output(judgement))

    _say(f"{len(faults) - bad} of {len(faults)} faults were noticed")
    return 1 if bad else 0


def _row(name: str, verdict: str, seconds: str, told_by: str) -> str:
    return f"{name:{_NAME_WIDTH}} {verdict:14} {seconds:>7}  {told_by}"


def _end_of_output(judgement: Judgement) -> list[str]:
    return [f"    | {line}" for line in judgement.output.splitlines()[-_OUTPUT_LINES:]]


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")

    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
