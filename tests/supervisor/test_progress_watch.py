"""The watch over real processes (F07 to F10), and what it does with messages."""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ipc.messages import (
    Delta,
    Device,
    FailCode,
    Failed,
    Finished,
    FinishReason,
    FromWorker,
    Hello,
    Loaded,
    LoadFailCode,
    LoadFailed,
    Phase,
    Progress,
    RejectCode,
    Rejected,
    Started,
)
from supervisor.process_sample import ProcessSample
from supervisor.progress_judge import Activity, Hung, HungCause
from supervisor.progress_watch import ProgressWatch
from supervisor.watch_bounds import WatchBounds
from tests.supervisor.made_up_workers import HOLDS_THE_LOCK, SLEEPS, SPINS, running

# As production's, a tenth as long; a stopped process is found by the real bounds.
_SHORT = WatchBounds(
    interval_s=0.05, stopped_s=0.3, request_stall_s=1.5, load_stall_s=6.0, kernel_wait_s=6.0, call_budget_s=1.0
)
_TOKEN = Delta(request_id=1, text="x", completion_tokens=1)
_SLICE = Progress(phase=Phase.PREFILL, request_id=1, done=0, total=1)
_FINISHED = Finished(
    request_id=1,
    reason=FinishReason.STOP,
    prompt_tokens=1,
    completion_tokens=1,
    cached_tokens=0,
    ttft_sec=0.0,
    decode_tok_per_sec=0.0,
)
_LOADED = Loaded(device=Device.CPU, fallback_reason=None, context_length=None, load_sec=0.0, engine_version="")


class Watched:
    """A watch over a process, and what it found."""

    def __init__(self, pid: int, bounds: WatchBounds) -> None:
        self.hung: asyncio.Future[Hung] = asyncio.get_running_loop().create_future()
        self.watch = ProgressWatch(pid, "worker 1", bounds, 128, self.hung.set_result)

    async def is_found_hung(self, within_s: float) -> Hung | None:
        done, _ = await asyncio.wait({self.hung}, timeout=within_s)
        return self.hung.result() if done else None


@contextlib.contextmanager
def watching(pid: int, bounds: WatchBounds) -> Iterator[Watched]:
    watched = Watched(pid, bounds)

    try:
        yield watched
    finally:
        watched.watch.rest()


async def test_a_stopped_worker_is_found_within_four_seconds() -> None:
    with running(SPINS) as process, watching(process.pid, WatchBounds()) as watched:
        watched.watch.begin(Activity.REQUEST)
        watched.watch.on_message(_TOKEN)
        process.send_signal(signal.SIGSTOP)
        stopped_at = time.monotonic()
        hung = await watched.is_found_hung(within_s=6)

    assert hung is not None
    assert hung.cause is HungCause.STOPPED
    assert 2.0 < time.monotonic() - stopped_at < 4.5


async def test_a_worker_that_was_stopped_for_two_seconds_is_left_alone() -> None:
    with running(SPINS) as process, watching(process.pid, WatchBounds()) as watched:
        watched.watch.begin(Activity.REQUEST)
        process.send_signal(signal.SIGSTOP)
        assert await watched.is_found_hung(within_s=1.9) is None
        process.send_signal(signal.SIGCONT)
        assert await watched.is_found_hung(within_s=0.7) is None


async def test_native_code_that_holds_the_interpreter_lock_for_ever_is_found() -> None:
    with running(HOLDS_THE_LOCK) as process, watching(process.pid, _SHORT) as watched:
        watched.watch.begin(Activity.REQUEST)
        began_at = time.monotonic()
        hung = await watched.is_found_hung(within_s=6)

    assert hung is not None
    assert hung.cause is HungCause.STALLED
    assert 1.4 < time.monotonic() - began_at < 4


async def test_an_endless_loop_is_found_when_its_budget_is_used_up_and_not_before() -> None:
    with running(SPINS) as process, watching(process.pid, _SHORT) as watched:
        watched.watch.begin(Activity.REQUEST)
        watched.watch.on_message(_SLICE)
        watched.watch.on_message(_TOKEN)
        watched.watch.on_message(_TOKEN)
        began_at = time.monotonic()
        hung = await watched.is_found_hung(within_s=10)

    assert hung is not None
    assert hung.cause is HungCause.OVER_BUDGET
    assert time.monotonic() - began_at >= 0.95


async def test_an_honest_worker_that_starves_beside_others_is_left_alone() -> None:
    """It gets less than one percent of a CPU: too little to be told from a deadlock by its clock ticks."""
    cpu = min(os.sched_getaffinity(0))
    bounds = replace(_SHORT, request_stall_s=0.8, call_budget_s=0.2)

    with running(SPINS, command=("nice", "-n", "19"), cpu=cpu) as process, contextlib.ExitStack() as hogs:
        for _ in range(3):
            hogs.enter_context(running(SPINS, cpu=cpu))

        with watching(process.pid, bounds) as watched:
            watched.watch.begin(Activity.REQUEST)
            watched.watch.on_message(_TOKEN)
            assert await watched.is_found_hung(within_s=2.0) is None


async def test_a_worker_that_sends_something_now_and_then_is_never_looked_at() -> None:
    looks: list[int] = []

    def read(pid: int, *, with_family: bool) -> ProcessSample | None:
        looks.append(pid)
        return None

    watch = ProgressWatch(1, "worker 1", replace(_SHORT, interval_s=0.5), 128, lambda hung: None, read=read)
    watch.begin(Activity.REQUEST)

    for _ in range(11):
        watch.on_message(_TOKEN)
        await asyncio.sleep(0.1)

    watch.rest()
    assert looks == []


async def test_an_idle_worker_is_left_alone_even_when_it_is_stopped() -> None:
    with running(SLEEPS) as process, watching(process.pid, _SHORT) as watched:
        process.send_signal(signal.SIGSTOP)
        assert await watched.is_found_hung(within_s=0.5) is None
        watched.watch.begin(Activity.REQUEST)
        watched.watch.on_message(_FINISHED)
        assert await watched.is_found_hung(within_s=0.4) is None


@pytest.mark.parametrize(
    "end",
    [
        _LOADED,
        LoadFailed(code=LoadFailCode.OTHER, message="x"),
        _FINISHED,
        Rejected(request_id=1, code=RejectCode.INVALID_REQUEST, message="x"),
        Failed(request_id=1, code=FailCode.ENGINE_ERROR, message="x", is_fatal=False),
    ],
)
async def test_each_end_lets_it_rest(end: FromWorker) -> None:
    with running(SLEEPS) as process, watching(process.pid, replace(_SHORT, request_stall_s=0.1)) as watched:
        watched.watch.begin(Activity.REQUEST)
        watched.watch.on_message(end)
        assert await watched.is_found_hung(within_s=0.25) is None


async def test_a_hello_begins_the_load_with_its_own_bound() -> None:
    bounds = replace(_SHORT, request_stall_s=0.3, load_stall_s=0.9)

    with running(SLEEPS) as process, watching(process.pid, bounds) as watched:
        watched.watch.begin(Activity.START)
        watched.watch.on_message(Hello(secret=b"", generation=1, pid=process.pid, version=""))
        watched.watch.on_message(Progress(phase=Phase.LOAD))
        assert await watched.is_found_hung(within_s=0.7) is None
        hung = await watched.is_found_hung(within_s=4)

    assert hung is not None
    assert "loading the model" in hung.text


async def test_a_worker_that_never_says_hello_is_found() -> None:
    with running(SLEEPS) as process, watching(process.pid, replace(_SHORT, request_stall_s=0.3)) as watched:
        watched.watch.begin(Activity.START)
        hung = await watched.is_found_hung(within_s=4)

    assert hung is not None
    assert "was starting" in hung.text


async def test_each_message_begins_a_new_call() -> None:
    bounds = replace(_SHORT, request_stall_s=0.4, call_budget_s=0.4)

    with running(SLEEPS) as process, watching(process.pid, bounds) as watched:
        watched.watch.begin(Activity.REQUEST)

        for message in (Started(request_id=1, prompt_tokens=1, max_tokens=9), _SLICE, _SLICE, _TOKEN, _TOKEN, _TOKEN):
            watched.watch.on_message(message)
            assert await watched.is_found_hung(within_s=0.2) is None

        assert await watched.is_found_hung(within_s=4) is not None


async def test_a_doubt_is_logged_once_before_it_is_certain(caplog: pytest.LogCaptureFixture) -> None:
    with running(SLEEPS) as process, watching(process.pid, replace(_SHORT, request_stall_s=0.6)) as watched:
        watched.watch.begin(Activity.REQUEST)

        with caplog.at_level(logging.WARNING):
            assert await watched.is_found_hung(within_s=4) is not None

    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == ["[worker 1] may hang"]


async def test_a_hang_is_told_once() -> None:
    told: list[Hung] = []

    with running(SLEEPS) as process:
        watch = ProgressWatch(process.pid, "worker 1", replace(_SHORT, request_stall_s=0.2), 128, told.append)
        watch.begin(Activity.REQUEST)
        await asyncio.sleep(0.9)

    watch.rest()
    assert [hung.cause for hung in told] == [HungCause.STALLED]


async def test_a_process_that_is_gone_is_no_business_of_the_watch() -> None:
    with running(SLEEPS) as process, watching(process.pid, _SHORT) as watched:
        watched.watch.begin(Activity.REQUEST)
        process.kill()
        process.wait()
        assert await watched.is_found_hung(within_s=0.5) is None


async def test_a_front_that_was_blocked_does_not_blame_the_worker() -> None:
    with running(SLEEPS) as process, watching(process.pid, replace(_SHORT, request_stall_s=0.6)) as watched:
        watched.watch.begin(Activity.REQUEST)
        await asyncio.sleep(0.2)
        time.sleep(1)  # noqa: ASYNC251  # the front's loop is what is blocked
        watched.watch.on_message(_TOKEN)
        assert await watched.is_found_hung(within_s=0.3) is None
