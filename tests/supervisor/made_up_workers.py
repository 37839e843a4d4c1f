"""Small real processes that hang, work, starve or wait, for the tests of the watch."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

# Each says one line when it is at it. All end by themselves, should a test forget them.
SPINS = "import time\nend = time.monotonic() + 20\nprint(flush=True)\nwhile time.monotonic() < end: pass"
SLEEPS = "import time\nprint(flush=True)\ntime.sleep(20)"
# A native call that keeps the interpreter lock and never comes back.
HOLDS_THE_LOCK = """
import ctypes, signal
signal.alarm(20)
print(flush=True)
ctypes.PyDLL(None).pause()
"""


@contextlib.contextmanager
def running(
    code: str, *, command: Sequence[str] = (), cpu: int | None = None, is_leader: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Run Python code in a process until the block ends, and wait for its first line. command: stands before the interpreter.

    cpu: the only CPU that it may use. is_leader: give it a session of its own, as workers have.
    """
    everywhere = os.sched_getaffinity(0)

    if cpu is not None:
        os.sched_setaffinity(0, {cpu})

    try:
        process = subprocess.Popen(
            [*command, sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, start_new_session=is_leader
        )
    finally:
        os.sched_setaffinity(0, everywhere)

    assert process.stdout is not None

    try:
        process.stdout.readline()
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        process.wait()
