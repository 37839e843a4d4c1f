"""Unload, drain and close at the worst moment."""

import asyncio

import psutil
import pytest

from ipc.messages import GenerationTask, Loaded
from supervisor.errors import (
    ServerDraining,
    WorkerDied,
)
from supervisor.host_status import HostState
from supervisor.model_host import ModelHost
from supervisor.settings import SupervisorSettings
from supervisor.worker_words import WorkerWords
from tests.supervisor.host_talk import GREEDY, PLAIN, MakeModel, ask, kill_and_wait_dead, pid_of, until


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


async def test_the_time_for_running_requests_ends_also_between_the_load_and_the_generation(
    host: ModelHost, make_model: MakeModel
) -> None:
    model = make_model()

    async with host.turn(model) as turn:
        drained = host.drain(timeout_s=0.0)
        await asyncio.sleep(0.01)

        with pytest.raises(ServerDraining):
            turn.generate(GenerationTask(prompt=(PLAIN,), max_tokens=4, sampling=GREEDY))

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
    on_loaded = WorkerWords._on_loaded

    def cut_then(words: WorkerWords, loaded: Loaded) -> None:
        on_loaded(words, loaded)
        # Before the one who waits for the load runs.
        host._open_turns.cut(ServerDraining("time is over"))

    monkeypatch.setattr(WorkerWords, "_on_loaded", cut_then)

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
