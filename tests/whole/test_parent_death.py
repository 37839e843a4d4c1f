"""A front that is killed takes its worker along, whatever the two are doing.

The stand-in shows all states of a worker's life; the real worker shows that it lays its tie before anything else.
"""

import ctypes
import os
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import psutil
import pytest

from supervisor.settings import ModelRef

ROOT = Path(__file__).parents[2]
MakeModel = Callable[..., ModelRef]
# What is promised. Typical is a few milliseconds.
BOUND_S = 1.0


class FrontProcess:
    """A front of its own, to be killed."""

    def __init__(self, runtime_dir: Path, model: ModelRef, prompt: str, worker: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.hold_a_worker", str(runtime_dir), str(model.path), worker, prompt],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        assert self.process.stdout is not None
        self._stdout: IO[str] = self.process.stdout
        self._pidfd = -1

    def wait_for(self, word: str) -> str:
        """Return the rest of the first line that begins with the word."""
        for line in self._stdout:
            first, _, rest = line.rstrip("\n").partition(" ")

            if first == "spawned":
                self._pidfd = os.pidfd_open(int(rest))

            if first == word:
                return rest

        raise AssertionError(f"the front ended before it said {word!r}")

    def kill(self, number: signal.Signals = signal.SIGKILL) -> float:
        """Kill the front; return after how many seconds its worker was gone."""
        before = time.monotonic()
        self.process.send_signal(number)
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        assert poller.poll(10_000), "the worker lives on"
        return time.monotonic() - before

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._stdout.close()

        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


@pytest.fixture
def start_front(runtime_dir: Path) -> Iterator[Callable[..., FrontProcess]]:
    """Return a function that starts a front; whatever a killed one left of its sockets is removed."""
    fronts: list[FrontProcess] = []

    def start(model: ModelRef, prompt: str = "", worker: str = "stand-in") -> FrontProcess:
        fronts.append(FrontProcess(runtime_dir, model, prompt, worker))
        return fronts[-1]

    yield start

    for front in fronts:
        front.close()

    for path in runtime_dir.iterdir():
        path.unlink()


LONG: dict[str, Any] = {"text": ["a"] * 5000, "delay_s": 0.01}
STATES: dict[str, tuple[dict[str, Any], str, str]] = {
    "interpreter started": ({"at": {"start": "sleep"}}, "", "spawned"),
    "loading": ({"at": {"load": "sleep"}}, "", "spawned"),
    "loading in native code": ({"at": {"load": "gil"}}, "", "spawned"),
    "idle": ({}, "", "loaded"),
    "prefilling": ({"prefill": 5000, "prefill_s": 0.01}, "x", "Started"),
    "prefilling in native code": ({"prefill": 1, "at": {"prefill": "gil"}}, "x", "Started"),
    "generating": (LONG, "x", "Delta"),
    "generating in native code": (LONG | {"at": {"token:3": "gil"}}, "x", "Delta"),
    "deaf to sigterm": (LONG | {"ignore_term": True}, "x", "Delta"),
    "stopped": (LONG | {"at": {"token:3": "stop"}}, "x", "Delta"),
}


@pytest.mark.parametrize("state", STATES)
def test_a_worker_is_gone_when_its_front_was_killed(
    start_front: Callable[..., FrontProcess], make_model: MakeModel, state: str, record_property: Callable[..., None]
) -> None:
    script, prompt, word = STATES[state]
    front = start_front(make_model(**script), prompt)
    front.wait_for("spawned")

    if word != "spawned":
        front.wait_for(word)

    # Until the worker is in the middle of it: what it does then has no word of its own.
    time.sleep(0.3)
    took = front.kill()
    record_property("seconds", took)
    print(f"{state}: {took * 1000:.1f} ms")  # noqa: T201
    assert took < BOUND_S


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT, signal.SIGHUP])
def test_a_worker_is_gone_whatever_ended_its_front(
    start_front: Callable[..., FrontProcess], make_model: MakeModel, number: signal.Signals
) -> None:
    front = start_front(make_model(**LONG), "x")
    front.wait_for("Delta")
    assert front.kill(number) < BOUND_S


def test_a_front_that_is_killed_right_after_the_spawn_leaves_no_worker(
    start_front: Callable[..., FrontProcess], make_model: MakeModel
) -> None:
    """The kill comes while the interpreter starts, before prctl, and before the spec is read."""
    model = make_model()
    took = []

    for number in range(15):
        front = start_front(model, worker="real")
        front.wait_for("spawned")
        time.sleep(number * 0.004)
        took.append(front.kill())

    print(f"median {statistics.median(took) * 1000:.1f} ms, longest {max(took) * 1000:.1f} ms")  # noqa: T201
    assert max(took) < BOUND_S


@pytest.fixture
def orphans_are_ours() -> Iterator[None]:
    """Make every orphan below this process its child, so that none can hide."""
    libc = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)
    yield
    libc.prctl(36, 0, 0, 0, 0)


def reap_orphans() -> tuple[int, float]:
    """Wait until no child is left; return how many there were, and after how many seconds the last was gone."""
    before = time.monotonic()
    count = 0

    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return count, time.monotonic() - before

        count += pid > 0

        if pid == 0:
            assert time.monotonic() - before < 10, f"left: {psutil.Process().children(recursive=True)}"
            time.sleep(0.001)


@pytest.mark.usefixtures("orphans_are_ours")
def test_a_front_that_is_killed_in_the_middle_of_the_spawn_leaves_no_worker(
    start_front: Callable[..., FrontProcess], make_model: MakeModel
) -> None:
    """Thirty times, at moments from before the fork to after the exec."""
    model = make_model()
    until_spawned = min(time_until_spawned(start_front, model) for _ in range(3))
    took = []

    for number in range(30):
        front = start_front(model, worker="real")
        time.sleep(max(0.0, until_spawned - 0.01 + number * 0.001))
        front.close()
        count, seconds = reap_orphans()
        took += [seconds] * count

    print(f"{len(took)} orphans of 30, longest {max(took, default=0) * 1000:.1f} ms")  # noqa: T201
    # An orphan looks at its parent after its interpreter's start, which takes as long as this machine takes for that.
    assert max(took, default=0) < BOUND_S + 3 * until_spawned


def time_until_spawned(start_front: Callable[..., FrontProcess], model: ModelRef) -> float:
    before = time.monotonic()
    front = start_front(model, worker="real")
    front.wait_for("spawned")
    took = time.monotonic() - before
    front.close()
    reap_orphans()
    return took


def test_the_end_of_one_front_is_not_the_end_of_anothers_worker(
    start_front: Callable[..., FrontProcess], make_model: MakeModel
) -> None:
    first, second = (start_front(make_model(**LONG), "x") for _ in range(2))
    first.wait_for("spawned")
    pid = int(second.wait_for("spawned"))
    first.wait_for("Delta")
    second.wait_for("Delta")
    first.kill()
    second.wait_for("Delta")
    assert psutil.pid_exists(pid)
