"""Processes that live, died, are zombies, are hidden, or only have the same number."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor import process_identity
from supervisor.process_identity import (
    MAX_PID,
    ProcessIdentity,
    Sighting,
    identify,
    is_alive,
    own_identity,
    sight,
    sight_pid,
)
from tests.supervisor.lock_processes import ROOT

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")


@contextmanager
def zombie() -> Iterator[tuple[int, ProcessIdentity]]:
    """Give a process that has ended and is not reaped, and who it was while it lived."""
    with subprocess.Popen(["sleep", "30"]) as process:
        identity = identify(process.pid)
        assert identity is not None
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        yield process.pid, identity


def test_this_process_is_alive() -> None:
    own = own_identity()
    assert own == identify(os.getpid())
    assert own.pid == os.getpid()
    assert sight(own) is Sighting.ALIVE
    assert is_alive(own)
    assert sight_pid(os.getpid()) is Sighting.ALIVE


def test_a_zombie_is_dead_although_it_takes_signals() -> None:
    with zombie() as (pid, identity):
        os.kill(pid, 0)
        assert sight(identity) is Sighting.DEAD
        assert not is_alive(identity)
        assert sight_pid(pid) is Sighting.DEAD
        assert identify(pid) is None

    assert sight(identity) is Sighting.DEAD


def test_a_stopped_process_is_alive() -> None:
    with subprocess.Popen(["sleep", "30"]) as process:
        os.kill(process.pid, 19)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert sight_pid(process.pid) is Sighting.ALIVE
        process.kill()


def test_the_next_process_with_the_same_id_is_another_one() -> None:
    own = own_identity()
    assert sight(replace(own, start_ticks=own.start_ticks + 1)) is Sighting.DEAD


def test_a_process_id_that_was_really_reused_is_another_process() -> None:
    # untether#459: a file holds a number that now belongs to another program.
    with zombie() as (pid, identity):
        pass

    # The start time is told in ticks of 10 ms.
    time.sleep(0.03)

    with process_with_id(pid) as process:
        os.kill(process.pid, 0)
        assert process.pid == identity.pid
        assert sight(identity) is Sighting.DEAD
        assert sight_pid(pid) is Sighting.ALIVE


@contextmanager
def process_with_id(pid: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process with this id, by telling the kernel which one came last; others take ids too, so it takes some tries."""
    for _ in range(200):
        try:
            LAST_PID.write_text(str(pid - 1))
        except OSError:
            pytest.skip("this user may not choose process ids")

        with subprocess.Popen(["sleep", "30"]) as process:
            try:
                if process.pid == pid:
                    yield process
                    return
            finally:
                process.kill()

    pytest.skip("other programs took the id each time")


@pytest.mark.parametrize("field", ["boot_id", "pid_namespace"])
def test_an_id_of_another_boot_or_namespace_says_nothing(field: str) -> None:
    # stellar-core#883: in containers every process is number 1 or 7.
    own = own_identity()
    other = replace(own, boot_id="another") if field == "boot_id" else replace(own, pid_namespace=1)
    assert sight(other) is Sighting.ELSEWHERE
    assert not is_alive(other)


@pytest.mark.parametrize("name", [b"a) Z 1 (b", b")", b"x\ny z", b"\xff\xfe)"])
def test_a_command_may_have_any_name(name: bytes) -> None:
    comm = Path("/proc/self/comm")
    before, own = comm.read_bytes(), own_identity()

    try:
        comm.write_bytes(name)
        assert own_identity() == own
        assert is_alive(own)
    finally:
        comm.write_bytes(before.strip())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pid", 0),
        ("pid", -1),
        ("pid", MAX_PID + 1),
        ("start_ticks", -1),
        ("start_ticks", 1 << 63),
        ("boot_id", ""),
        ("boot_id", "x" * 65),
        ("pid_namespace", 0),
    ],
)
def test_values_that_no_process_can_have_are_refused_by_name(field: str, value: object) -> None:
    own = own_identity()
    fields = {name: getattr(own, name) for name in ("pid", "start_ticks", "boot_id", "pid_namespace")}

    with pytest.raises(ValueError, match=field):
        ProcessIdentity(**{**fields, field: value})


@pytest.mark.parametrize("hidepid", [1, 2])
def test_a_hidden_process_of_another_user_is_not_taken_for_dead(hidepid: int) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root may hide processes")

    with subprocess.Popen(["true"]) as gone:
        gone.wait()

    script = f'mount -t proc -o hidepid={hidepid} proc /proc && exec "$@"'
    asked = [
        sys.executable,
        "-m",
        "tests.supervisor.lock_processes",
        "65534",
        "sight",
        "/",
        str(os.getpid()),
        str(gone.pid),
    ]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *asked], cwd=ROOT, capture_output=True, text=True, check=False
    )

    if "mount" in done.stderr:
        pytest.skip("this user may not mount")

    assert (done.stdout.split(), done.stderr) == (["hidden", "dead"], "")


def test_without_proc_nobody_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    own = own_identity()

    def refuse() -> str:
        raise FileNotFoundError("/proc")

    monkeypatch.setattr(process_identity, "_boot_id", refuse)
    assert sight(own) is Sighting.HIDDEN
    assert not is_alive(own)
    assert identify(os.getpid()) is None
