"""Looks at real processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from supervisor.process_sample import ProcessSample, read_process
from tests.supervisor.made_up_workers import HOLDS_THE_LOCK, SLEEPS, SPINS, running

_DEADLINE_S = 10.0


def _look(pid: int, *, with_family: bool = False) -> ProcessSample:
    sample = read_process(pid, with_family=with_family)
    assert sample is not None
    return sample


def _look_until(pid: int, holds: Callable[[ProcessSample], bool], *, with_family: bool = False) -> ProcessSample:
    """Look again and again: the kernel has no event for what is looked at here."""
    ends_at = time.monotonic() + _DEADLINE_S

    while not holds(sample := _look(pid, with_family=with_family)):
        assert time.monotonic() < ends_at, sample
        time.sleep(0.01)

    return sample


def _is_runnable(sample: ProcessSample) -> bool:
    return any(thread.is_runnable for thread in sample.threads.values())


def test_a_busy_process_gains_cpu_time() -> None:
    with running(SPINS) as process:
        first = _look(process.pid)
        later = _look_until(process.pid, lambda sample: sample.cpu_s >= first.cpu_s + 0.2)

    assert _is_runnable(later)
    assert later.resident_bytes > 1 << 20


def test_a_process_that_waits_gains_nothing() -> None:
    with running(SLEEPS) as process:
        first = _look_until(process.pid, lambda sample: sample.state == "S")
        time.sleep(0.2)
        assert _look(process.pid) == first


def test_one_that_holds_the_interpreter_lock_for_ever_gains_nothing_much() -> None:
    with running(HOLDS_THE_LOCK) as process:
        first = _look_until(process.pid, lambda sample: sample.state == "S")
        time.sleep(0.3)
        assert _look(process.pid).cpu_s - first.cpu_s <= 0.02


def test_a_stopped_process_is_seen_as_stopped() -> None:
    with running(SPINS) as process:
        process.send_signal(signal.SIGSTOP)
        _look_until(process.pid, lambda sample: sample.state == "T" and not _is_runnable(sample))
        process.send_signal(signal.SIGCONT)
        _look_until(process.pid, lambda sample: sample.state != "T")


def test_the_work_of_a_second_thread_counts() -> None:
    code = f"import threading\nthreading.Thread(target=exec, args=({SPINS!r}, {{}})).start()"

    with running(code) as process:
        first = _look(process.pid)
        later = _look_until(process.pid, lambda sample: sample.cpu_s >= first.cpu_s + 0.1)

    assert _is_runnable(later)
    assert len(later.threads) == 2


def test_two_that_share_a_cpu_wait_for_it() -> None:
    cpu = min(os.sched_getaffinity(0))

    with running(SPINS, cpu=cpu) as process, running(SPINS, cpu=cpu):
        first = _look(process.pid).threads[process.pid]
        later = _look_until(process.pid, lambda sample: sample.threads[process.pid].waited_s >= first.waited_s + 0.1)

    thread = later.threads[process.pid]
    assert thread.slices > first.slices
    assert thread.cpu_s > first.cpu_s


def test_what_is_read_from_the_disk_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(os.urandom(4 << 20))

    # Out of the page cache, so that it is read from the disk; a file system in memory reads nothing.
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    before = _look(os.getpid())
    path.read_bytes()
    after = _look(os.getpid())

    assert before.read_bytes is not None
    assert after.read_bytes is not None
    assert after.read_bytes >= before.read_bytes


def test_a_child_of_the_session_is_found_only_when_it_is_looked_for() -> None:
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-S', '-c', {SPINS!r}])"

    with running(code, is_leader=True) as process:
        assert _look(process.pid).family_cpu_s is None
        first = _look(process.pid, with_family=True).family_cpu_s
        assert first is not None
        began_s = first
        _look_until(
            process.pid,
            lambda sample: sample.family_cpu_s is not None and sample.family_cpu_s >= began_s + 0.1,
            with_family=True,
        )
        os.killpg(process.pid, signal.SIGKILL)


def test_the_name_of_a_program_may_hold_brackets_and_blanks(tmp_path: Path) -> None:
    script = tmp_path / ") R 1 (x"
    script.write_text(f"#!{sys.executable} -S\n{SLEEPS}\n")
    script.chmod(0o700)

    with subprocess.Popen([str(script)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        sample = _look_until(process.pid, lambda sample: sample.state == "S")
        process.kill()

    assert sample.cpu_s < 10


def test_a_process_that_is_gone_gives_no_sample() -> None:
    with running(SLEEPS) as process:
        pass

    assert read_process(process.pid, with_family=True) is None


def test_one_that_ended_and_was_not_waited_for_does_no_harm() -> None:
    with running("print(flush=True)") as process:
        assert _look_until(process.pid, lambda sample: sample.state == "Z").resident_bytes == 0


def test_a_look_is_cheap() -> None:
    with running(SLEEPS) as process:
        began_s = time.process_time()

        for _ in range(100):
            _look(process.pid)

        assert (time.process_time() - began_s) / 100 < 0.002
