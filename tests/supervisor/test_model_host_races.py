"""The host in the moments between two events: last words, leavers, and workers without manners."""

import asyncio
import time
from dataclasses import replace

import psutil
import pytest

import supervisor.worker
from ipc.front_end import FrontEnd
from ipc.messages import Delta, GenerationTask, Started
from supervisor.errors import (
    ModelLoadFailed,
    SupervisorError,
    WorkerDied,
)
from supervisor.host_status import HostState
from supervisor.model_host import ModelHost
from supervisor.settings import SupervisorSettings
from tests.supervisor.host_talk import GREEDY, RUDE, MakeModel, ask, kill_and_wait_dead, pid_of, until, wait_dead


@pytest.fixture
def rude(settings: SupervisorSettings) -> SupervisorSettings:
    return replace(settings, worker_command=RUDE)


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
        stream = turn.generate(GenerationTask(prompt=("x",), max_tokens=4, sampling=GREEDY))
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
            stream = turn.generate(GenerationTask(prompt=("x",), max_tokens=500, sampling=GREEDY))
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
