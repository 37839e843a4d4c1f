"""The fake daemon as a process, for tests that have no event loop. Blocks until it listens, and until it has ended."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def serving_daemon() -> Iterator[str]:
    """Give the address of a daemon with the models of `standard_daemon`."""
    command = (sys.executable, "-m", "tests.ollama.fake_daemon")

    # Its end is the end of its standard input, which this block closes.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
