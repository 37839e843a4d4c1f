"""The ties to the front: the kernel's word, a pipe that tells by its end, and the parent's identity."""

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from gpu_worker.lifeline import Lifeline, is_abandoned, is_orphan

ROOT = Path(__file__).parents[2]
# Sleeps in native code that keeps the interpreter's lock: no pipe and no handler is looked at any more.
CHILD = (
    "import ctypes, sys; from gpu_worker.lifeline import die_with_parent; die_with_parent(); "
    "sys.stdout.write('tied'); sys.stdout.flush(); ctypes.PyDLL(None).sleep(60)"
)
PARENT = (
    "import signal, subprocess, sys; "
    "child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE); "
    "assert child.stdout.read(4) == b'tied'; print(child.pid, flush=True); signal.pause()"
)


def test_a_process_deep_in_native_code_ends_with_the_one_that_started_it() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, cwd=ROOT) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        pidfd = os.pidfd_open(pid)

        try:
            parent.kill()
            poller = select.poll()
            poller.register(pidfd, select.POLLIN)
            assert poller.poll(5_000), "it lives on"
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)

            os.close(pidfd)


def test_the_line_is_whole_while_the_front_holds_its_end_and_cut_after() -> None:
    read_fd, write_fd = os.pipe()

    try:
        lifeline = Lifeline(read_fd)
        assert not lifeline.is_cut()
        os.close(write_fd)
        assert lifeline.is_cut()
        assert lifeline.is_cut()
    finally:
        os.close(read_fd)


def test_another_parent_than_the_front_makes_an_orphan() -> None:
    assert not is_orphan(os.getppid())
    assert is_orphan(os.getpid())


def test_a_pipe_without_a_writer_is_abandoned_also_with_an_unread_spec() -> None:
    read_fd, write_fd = os.pipe()

    try:
        os.write(write_fd, b"spec")
        assert not is_abandoned(read_fd)
        os.close(write_fd)
        assert is_abandoned(read_fd)
    finally:
        os.close(read_fd)
