"""`python -m benchmarks chaos` for a few seconds, on the stand-in and on the engine: real signals, and nobody is lost.

Longer runs are made by hand; docs/reliability.md says how.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
# A run that finds a lost request waits for it; one that finds nothing takes some 15 s.
_BOUND_S = 240


def chaos(*flags: str) -> tuple[int, dict[str, Any]]:
    command = (sys.executable, "-m", "benchmarks", "chaos", *flags)
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_BOUND_S, check=False)
    assert ended.stdout, ended.stderr
    found = json.loads(ended.stdout)
    assert isinstance(found, dict)
    return ended.returncode, found


@pytest.mark.timeout(_BOUND_S + 10)
@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(("--worker", "stand-in", "--minutes", "0.08"), id="stand-in"),
        pytest.param(
            ("--worker", "engine", "--minutes", "0.08", "--kill-every", "1.5"), id="engine", marks=pytest.mark.engine
        ),
    ],
)
def test_every_request_gets_one_answer_whatever_happens_to_the_worker(flags: tuple[str, ...]) -> None:
    status, found = chaos("--seed", "5", *flags)
    assert found["examples"] == []
    assert (status, found["verdict"], found["violations"]) == (0, "good", 0)
    assert (found["lost"], found["queued_lost"], found["double_terminal"]) == (0, 0, 0)
    # A run in which nothing happened would prove nothing.
    assert sum(found["kills"].values()) > 0
    assert found["classes"]["answered"] > 0
    assert found["workers"] > 1
