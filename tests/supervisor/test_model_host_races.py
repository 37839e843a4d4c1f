"""The host in the moments between two events: who has the turn, what is told, and what is left."""

import asyncio
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import supervisor.worker
from ipc.front_end import FrontEnd
from ipc.messages import Delta, Finished, Loaded, Sampling, Started
from supervisor.child_process import ChildProcess
from supervisor.errors import (
    InvalidForModel,
    ModelLoadFailed,
    ServerDraining,
    SupervisorError,
    WorkerDied,
    WorkerUnresponsive,
)
from supervisor.host_status import HostState
from supervisor.model_host import ModelHost
from supervisor.settings import ModelRef, SupervisorSettings
from supervisor.worker import Worker

MakeModel = Callable[..., ModelRef]
GREEDY = Sampling(temperature=0.0)
RUDE = (sys.executable, str(Path(__file__).parent / "rude_worker.py"))
PLAIN = '@stand-in {"text": ["ok"], "at": {}, "delay_s": 0}'


async def ask(host: ModelHost, model: ModelRef, prompt: str = PLAIN, max_tokens: int = 16) -> str:
    async with host.turn(model) as turn:
        answer = [message async for message in turn.generate((prompt,), max_tokens, GREEDY)]
        assert isinstance(answer[-1], Finished)
        return "".join(message.text for message in answer if isinstance(message, Delta))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


def pid_of(host: ModelHost) -> int:
    pid = host.status().worker_pid
    assert pid is not None
    return pid


def wait_dead(pid: int) -> None:
    """Wait without a turn of the loop, so that nobody in the loop has been told then."""
    pidfd = os.pidfd_open(pid)
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    assert poller.poll(10_000)
    os.close(pidfd)


def kill_and_wait_dead(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_dead(pid)


@pytest.fixture
def rude(settings: SupervisorSettings) -> SupervisorSettings:
    return replace(settings, worker_command=RUDE)


async def test_a_worker_that_died_idle_costs_the_next_request_nothing(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model()

    for number in range(3):
        assert await ask(host, model) == "ok"
        kill_and_wait_dead(pid_of(host))
        assert host.status().state is HostState.IDLE
        assert host.status().restarts == number

    assert await ask(host, model) == "ok"
    assert host.status().generation == 4
    assert host.status().restarts == 3


async def test_a_worker_that_died_idle_is_no_worker_to_unload(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model()
    await ask(host, model)
    pid = pid_of(host)
    kill_and_wait_dead(pid)

    assert (await host.unload()).model_id is None
    assert not psutil.pid_exists(pid)
    assert host.status().restarts == 1


async def test_unload_waits_also_for_a_worker_that_is_being_killed(host: ModelHost, make_model: MakeModel) -> None:
    await ask(host, make_model())
    pid = pid_of(host)
    assert host._worker is not None
    host._worker.kill(WorkerDied("made up"))

    assert (await host.unload()).model_id is None
    assert not psutil.pid_exists(pid)


async def test_a_worker_that_cannot_be_reached_is_ended_and_the_next_one_serves(
    host: ModelHost, make_model: MakeModel
) -> None:
    model = make_model()
    await ask(host, model)

    for number in (2, 3):
        assert host._worker is not None
        host._worker._channel.close()
        assert await ask(host, model) == "ok"
        assert host.status().generation == number


async def test_a_worker_that_dies_when_it_has_the_turn_and_no_request_yet_costs_nothing(
    host: ModelHost, make_model: MakeModel
) -> None:
    async with host.turn(make_model()) as turn:
        kill_and_wait_dead(pid_of(host))
        answer = [message async for message in turn.generate((PLAIN,), 4, GREEDY)]

    assert [type(message) for message in answer] == [Started, Delta, Finished]
    assert host.status().generation == 2


async def test_a_request_that_a_dying_worker_has_not_begun_is_served_by_the_next(
    rude: SupervisorSettings, make_model: MakeModel, tmp_path: Path
) -> None:
    host = ModelHost(rude)
    model = make_model()
    mark = tmp_path / "mark"
    mark.touch()

    assert await ask(host, model, f'@stand-in {{"text": ["ok"], "die_unbegun": "{mark}"}}') == "ok"
    assert not mark.exists()
    assert (host.status().generation, host.status().restarts) == (2, 1)
    await host.close()


async def test_a_request_that_kills_each_worker_before_a_word_is_told_after_the_second(
    rude: SupervisorSettings, make_model: MakeModel
) -> None:
    host = ModelHost(rude)
    model = make_model()

    with pytest.raises(WorkerDied, match="SIGKILL"):
        await ask(host, model, '@stand-in {"die_unbegun": "always"}')

    assert (host.status().generation, host.status().restarts) == (2, 2)
    assert await ask(host, model) == "ok"
    await host.close()


@pytest.mark.parametrize("is_drained", [False, True], ids=["reader leaves", "time is over"])
async def test_a_request_may_end_while_the_next_worker_is_made_ready(
    rude: SupervisorSettings, make_model: MakeModel, tmp_path: Path, is_drained: bool
) -> None:
    host = ModelHost(rude)
    model = make_model()
    mark = tmp_path / "mark"
    mark.touch()
    await ask(host, model)
    make_model(at={"load": "sleep"})
    asking = asyncio.create_task(ask(host, model, f'@stand-in {{"die_unbegun": "{mark}"}}'))
    await until(lambda: host.status().generation == 2 and host.status().state is HostState.LOADING)

    if is_drained:
        drained = host.drain(timeout_s=0.0)

        with pytest.raises(ServerDraining):
            await asyncio.wait_for(asking, 5)

        await asyncio.wait_for(drained, 5)
    else:
        asking.cancel()
        await asyncio.wait({asking})
        await until(lambda: host.status().state is HostState.IDLE)
        make_model()
        assert await ask(host, model) == "ok"

    await host.close()


async def test_nobody_in_the_queue_pays_for_a_worker_that_dies_after_each_answer(
    host: ModelHost, make_model: MakeModel
) -> None:
    model = make_model(text=["ok"], at={"after-end": "kill"})
    answers = await asyncio.gather(*(ask(host, model, "x") for _ in range(8)))
    assert answers == ["ok"] * 8


@pytest.mark.parametrize(("prompt", "max_tokens"), [("\ud800", 4), ("a", 2**70)], ids=["lone surrogate", "huge number"])
async def test_a_request_that_cannot_be_sent_is_refused_and_the_worker_serves_on(
    host: ModelHost, make_model: MakeModel, prompt: str, max_tokens: int
) -> None:
    model = make_model()

    with pytest.raises(InvalidForModel, match="cannot be encoded"):
        await ask(host, model, prompt, max_tokens)

    assert await ask(host, model) == "ok"
    assert host.status().generation == 1


@pytest.mark.parametrize("action", ["second-hello", "second-loaded"])
@pytest.mark.parametrize("phase", ["token:2", "after-end"])
async def test_a_word_that_has_no_place_ends_the_worker(
    rude: SupervisorSettings, make_model: MakeModel, action: str, phase: str
) -> None:
    host = ModelHost(rude)
    model = make_model(text=["a"] * 50, delay_s=0.01)
    script = f'@stand-in {{"at": {{"{phase}": "{action}"}}, "text": ["a", "a", "a"], "delay_s": 0.02}}'

    if phase == "after-end":
        assert await ask(host, model, script) == "aaa"
        await until(lambda: host.status().worker_pid is None)
    else:
        with pytest.raises(WorkerDied, match="protocol"):
            await asyncio.wait_for(ask(host, model, script), 10)

    assert await ask(host, model) == "ok"
    assert host.status().generation == 2
    await host.close()


async def test_a_worker_that_hangs_up_and_lives_on_is_ended(
    rude: SupervisorSettings, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor.worker, "DISCONNECTED_S", 0.05)
    host = ModelHost(rude)
    model = make_model()

    with pytest.raises(WorkerDied, match="closed its connection"):
        await asyncio.wait_for(ask(host, model, '@stand-in {"at": {"token:2": "hang-up"}}'), 10)

    assert await ask(host, model) == "ok"
    await host.close()


async def test_a_worker_that_fails_to_load_and_lives_on_is_ended(
    rude: SupervisorSettings, make_model: MakeModel
) -> None:
    host = ModelHost(rude)

    with pytest.raises(ModelLoadFailed, match="rude words"):
        await asyncio.wait_for(ask(host, make_model(at={"load": "fail-then-stay"})), 10)

    await until(lambda: psutil.Process().children() == [])
    await host.close()


async def test_the_words_of_a_failed_load_are_never_lost(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(load_error={"code": "other", "message": "tokenizer.json is missing"})

    for _ in range(8):
        with pytest.raises(ModelLoadFailed, match="tokenizer"):
            await ask(host, model)


async def test_the_words_of_a_failed_load_are_never_lost_on_a_front_that_was_busy(
    host: ModelHost, make_model: MakeModel
) -> None:
    model = make_model(load_error={"code": "other", "message": "tokenizer.json is missing"})
    task = asyncio.create_task(ask(host, model))
    await until(lambda: host.status().worker_pid is not None)
    # Until the worker has said everything and is dead, the loop does nothing.
    wait_dead(pid_of(host))

    with pytest.raises(ModelLoadFailed, match="tokenizer"):
        await task

    assert host.status().generation == 1


async def test_an_answer_whose_worker_ends_with_it_is_whole(rude: SupervisorSettings, make_model: MakeModel) -> None:
    host = ModelHost(rude)
    model = make_model()

    for count in (0, 1, 3000) * 4:
        script = f'@stand-in {{"at": {{"started": "burst-and-exit:{count}"}}}}'
        assert await asyncio.wait_for(ask(host, model, script), 10) == "a" * count
        await until(lambda: host.status().worker_pid is None)

    await host.close()


async def test_an_end_is_told_after_the_words_that_are_still_on_their_way(
    host: ModelHost, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(text=["ok"], at={"before-end": "sleep"})
    read_burst = FrontEnd._read_burst
    wait_disconnected = FrontEnd.wait_disconnected
    is_on_its_way = True

    def read_late(end: FrontEnd) -> bool:
        return False if is_on_its_way else read_burst(end)

    async def arrive_while_waiting(end: FrontEnd, timeout_s: float) -> None:
        nonlocal is_on_its_way
        is_on_its_way = False
        await wait_disconnected(end, timeout_s)

    async with host.turn(model) as turn:
        monkeypatch.setattr(FrontEnd, "_read_burst", read_late)
        monkeypatch.setattr(FrontEnd, "wait_disconnected", arrive_while_waiting)
        stream = turn.generate(("x",), 4, GREEDY)
        # Time for the worker to say its words; the kernel has them then.
        await asyncio.sleep(0.2)
        kill_and_wait_dead(pid_of(host))
        assert isinstance(await asyncio.wait_for(stream.receive(), 5), Started)
        assert isinstance(await asyncio.wait_for(stream.receive(), 5), Delta)

        with pytest.raises(WorkerDied, match="SIGKILL"):
            await asyncio.wait_for(stream.receive(), 5)


async def test_a_death_is_told_within_milliseconds(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(text=["a"] * 500, delay_s=0.02)
    took = []

    for _ in range(5):
        async with host.turn(model) as turn:
            stream = turn.generate(("x",), 500, GREEDY)
            await stream.receive()
            kill_and_wait_dead(pid_of(host))
            before = time.monotonic()

            with pytest.raises(WorkerDied):
                async for _message in stream:
                    pass

            took.append(time.monotonic() - before)

    # Typically 1 ms. Waiting for last words that never come would take 100 ms each time.
    assert min(took) < 0.05, took


async def test_two_who_leave_a_load_at_once_leave_nothing(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(at={"load": "sleep"})
    tasks = [asyncio.create_task(ask(host, model)) for _ in range(3)]
    await until(lambda: host.status().state is HostState.LOADING and host.status().waiting == 2)
    pid = pid_of(host)

    for task in tasks:
        task.cancel()

    await until(lambda: not psutil.pid_exists(pid))
    assert host.status().state is HostState.IDLE


async def test_the_next_one_who_leaves_in_the_moment_of_its_turn_leaves_no_load(
    host: ModelHost, make_model: MakeModel
) -> None:
    model = make_model(at={"load": "sleep"})
    first, second = (asyncio.create_task(ask(host, model)) for _ in range(2))
    await until(lambda: host.status().state is HostState.LOADING and host.status().waiting == 1)
    pid = pid_of(host)
    first.cancel()

    while host.status().waiting:
        await asyncio.sleep(0)

    # It has been given the turn, for which the load goes on, and has not run yet.
    second.cancel()
    await until(lambda: not psutil.pid_exists(pid))
    assert host.status().state is HostState.IDLE
    assert (await host.unload()).model_id is None


@pytest.mark.parametrize("folder", [os.fsdecode(b"/models/\xff"), "/models/\ud800"])
async def test_a_folder_whose_name_is_no_text_is_a_failed_load(host: ModelHost, folder: str) -> None:
    for _ in range(2):
        with pytest.raises(ModelLoadFailed, match="no worker can be started"):
            await ask(host, ModelRef("odd", Path(folder)))

    assert host.status().state is HostState.IDLE


async def test_a_runtime_folder_that_is_gone_or_too_long_is_a_failed_load(
    settings: SupervisorSettings, make_model: MakeModel, tmp_path: Path
) -> None:
    for folder in (tmp_path / "nowhere", tmp_path / ("x" * 100)):
        host = ModelHost(replace(settings, runtime_dir=folder))

        with pytest.raises(ModelLoadFailed, match="no worker can be started"):
            await ask(host, make_model())

        await host.close()


async def test_a_worker_program_that_is_not_there_is_a_failed_load(
    settings: SupervisorSettings, make_model: MakeModel
) -> None:
    host = ModelHost(replace(settings, worker_command=("/nowhere/python",)))

    with pytest.raises(ModelLoadFailed, match="No such file"):
        await ask(host, make_model())

    await host.close()


async def test_a_child_that_cannot_be_watched_is_a_failed_load(
    host: ModelHost, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> int:
        raise OSError(24, "Too many open files")

    model = make_model()

    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", refuse)

        with pytest.raises(ModelLoadFailed, match="Too many open files"):
            await ask(host, model)

    assert psutil.Process().children() == []
    assert await ask(host, model) == "ok"


def lowest_free_descriptor() -> int:
    fd = os.open("/dev/null", os.O_RDONLY)
    os.close(fd)
    return fd


async def test_a_front_without_descriptors_says_so_and_serves_when_it_has_some(
    settings: SupervisorSettings, make_model: MakeModel
) -> None:
    model = make_model()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    refused = 0

    for spare in range(16):
        host = ModelHost(settings)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free_descriptor() + spare, hard))

        try:
            await ask(host, model)
        except ModelLoadFailed as error:
            refused += 1
            assert "Too many open files" in str(error)  # noqa: PT017  # with some to spare there is no error
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        assert psutil.Process().children() == [] or host.status().worker_pid is not None
        await host.close()

    assert refused > 8
    host = ModelHost(settings)
    assert await ask(host, model) == "ok"
    await host.close()


async def test_a_worker_that_cannot_be_ended_is_said_so_until_it_is_gone(
    settings: SupervisorSettings, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = ModelHost(replace(settings, stop_grace_s=0.01, kill_wait_s=0.01))
    model = make_model()
    await ask(host, model)
    pid = pid_of(host)

    with monkeypatch.context() as patch:
        # No process survives SIGKILL on demand, so none is sent.
        patch.setattr(ChildProcess, "_signal_group", lambda _, __: None)

        with pytest.raises(WorkerUnresponsive, match="cannot be ended"):
            await host.unload()

    assert host.status().state is HostState.DEGRADED
    assert psutil.pid_exists(pid)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: host.status().state is HostState.IDLE)
    assert not psutil.pid_exists(pid)
    await host.close()


async def test_a_worker_that_ends_after_its_host_disturbs_nobody(
    settings: SupervisorSettings,
    make_model: MakeModel,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = ModelHost(replace(settings, stop_grace_s=0.01, kill_wait_s=0.01))
    await ask(host, make_model())
    pid = pid_of(host)

    with monkeypatch.context() as patch:
        patch.setattr(ChildProcess, "_signal_group", lambda _, __: None)
        await host.close()

    caplog.clear()
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not psutil.pid_exists(pid))
    await asyncio.sleep(0.01)
    assert caplog.records == []


async def test_the_time_for_running_requests_ends_also_between_the_load_and_the_generation(
    host: ModelHost, make_model: MakeModel
) -> None:
    model = make_model()

    async with host.turn(model) as turn:
        drained = host.drain(timeout_s=0.0)
        await asyncio.sleep(0.01)

        with pytest.raises(ServerDraining):
            turn.generate((PLAIN,), 4, GREEDY)

    assert await asyncio.wait_for(drained, 5) == model.model_id


async def test_the_time_for_running_requests_ends_also_in_the_middle_of_a_swap(
    settings: SupervisorSettings, make_model: MakeModel
) -> None:
    host = ModelHost(settings)
    await ask(host, make_model("one", ignore_term=True))
    swapping = asyncio.create_task(ask(host, make_model("two", at={"load": "sleep"})))
    # The old worker ignores SIGTERM, so the swap takes its grace.
    await asyncio.sleep(0.05)
    assert host.status().worker_pid is None
    drained = host.drain(timeout_s=0.0)

    with pytest.raises(ServerDraining):
        await asyncio.wait_for(swapping, 5)

    await asyncio.wait_for(drained, 5)
    assert host.status().generation == 1
    await host.close()


async def test_the_time_for_running_requests_ends_also_in_the_moment_in_which_a_load_ends(
    host: ModelHost, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_loaded = Worker._on_loaded

    def cut_then(worker: Worker, loaded: Loaded) -> None:
        on_loaded(worker, loaded)
        # Before the one who waits for the load runs.
        host._cut(ServerDraining("time is over"))

    monkeypatch.setattr(Worker, "_on_loaded", cut_then)

    with pytest.raises(ServerDraining):
        await asyncio.wait_for(ask(host, make_model(text=["a"] * 500, delay_s=0.02), "x", 500), 5)


async def test_the_time_for_running_requests_ends_a_load(host: ModelHost, make_model: MakeModel) -> None:
    asking = asyncio.create_task(ask(host, make_model(at={"load": "sleep"})))
    await until(lambda: host.status().state is HostState.LOADING)
    drained = host.drain(timeout_s=0.01)

    with pytest.raises(ServerDraining):
        await asyncio.wait_for(asking, 5)

    assert await asyncio.wait_for(drained, 5) is None


async def test_close_ends_a_drain_that_still_waits(settings: SupervisorSettings, make_model: MakeModel) -> None:
    host = ModelHost(settings)
    model = make_model(text=["a"] * 500, delay_s=0.02)
    asking = asyncio.create_task(ask(host, model, "x", 500))
    await until(lambda: host.status().state is HostState.BUSY)
    drained = host.drain(timeout_s=100)
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait({asking})
    await asyncio.wait_for(host.close(), 5)

    assert drained.done()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_close_ends_a_drain_whose_turn_never_comes(settings: SupervisorSettings, make_model: MakeModel) -> None:
    host = ModelHost(settings)

    async with host.turn(make_model()):
        drained = host.drain()
        await asyncio.sleep(0)
        await asyncio.wait_for(host.close(), 5)

    assert drained.done()


async def test_an_unload_whose_caller_leaves_goes_on_and_gives_the_turn_back(
    host: ModelHost, make_model: MakeModel
) -> None:
    model = make_model(ignore_term=True)
    await ask(host, model)
    pid = pid_of(host)
    unloading = asyncio.create_task(host.unload())
    await asyncio.sleep(0.02)
    unloading.cancel()
    await asyncio.wait({unloading})
    assert psutil.pid_exists(pid)

    assert await asyncio.wait_for(ask(host, model), 5) == "ok"
    assert not psutil.pid_exists(pid)
    assert host.status().generation == 2


async def test_a_caller_of_unload_that_leaves_the_queue_changes_nothing(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(text=["a"] * 20, delay_s=0.01)
    asking = asyncio.create_task(ask(host, model, "x", 20))
    await until(lambda: host.status().state is HostState.BUSY)
    unloading = asyncio.create_task(host.unload())
    await asyncio.sleep(0)
    unloading.cancel()

    assert await asking == "a" * 20
    assert await ask(host, model) == "ok"
    assert host.status().generation == 1


async def test_an_answer_that_is_abandoned_when_its_worker_dies_is_settled_once(
    host: ModelHost, make_model: MakeModel
) -> None:
    model = make_model(text=["a"] * 500, delay_s=0.01)

    for is_death_first in (True, False):
        asking = asyncio.create_task(ask(host, model, "x", 500))
        await until(lambda: host.status().state is HostState.BUSY)

        if is_death_first:
            kill_and_wait_dead(pid_of(host))
            asking.cancel()
        else:
            asking.cancel()
            await asyncio.sleep(0)
            kill_and_wait_dead(pid_of(host))

        outcome = (await asyncio.gather(asking, return_exceptions=True))[0]
        assert isinstance(outcome, asyncio.CancelledError | SupervisorError)
        assert await asyncio.wait_for(ask(host, model), 5) == "ok"


async def test_a_turn_that_was_not_used_is_given_back(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model()

    for _ in range(3):
        async with host.turn(model):
            pass

    assert await ask(host, model) == "ok"
    assert host.status().generation == 1
