"""Unload and drain: against each other, against loads and pauses, and with a bound for what runs."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import psutil
import pytest

from ipc.messages import Delta, GenerationTask
from supervisor.errors import ModelUnloaded, ServerDraining, SupervisorError
from supervisor.host_status import HostState, UnloadReport
from supervisor.model_host import ModelHost
from supervisor.restart_settings import RestartSettings
from supervisor.settings import SupervisorSettings
from tests.supervisor.host_talk import GREEDY, MakeModel, ask, pid_of, until

LONG = '@stand-in {"text": ["a", "a", "a", "a", "a", "a"], "delay_s": 0.05}'
ENDLESS = "@stand-in " + json.dumps({"text": ["a"] * 1000, "delay_s": 0.02})
# A bound that is over at once, and one that never is.
NOW, NEVER = 0.0, None


def asking(host: ModelHost, make_model: MakeModel, prompt: str = LONG) -> "asyncio.Task[str]":
    return asyncio.create_task(ask(host, make_model(), prompt, 1000))


async def soon(work: "asyncio.Task[UnloadReport] | asyncio.Future[UnloadReport]") -> UnloadReport:
    return await asyncio.wait_for(work, 5)


async def test_an_unload_that_came_first_has_the_model_and_the_drain_nothing(
    host: ModelHost, make_model: MakeModel
) -> None:
    running = asking(host, make_model)
    await until(lambda: host.status().state is HostState.BUSY)
    unloading = asyncio.create_task(host.unload())
    await asyncio.sleep(0)
    drained = host.drain()

    assert (await soon(unloading)).model_id == "stand-in"
    assert await asyncio.wait_for(drained, 5) is None
    assert await running == "aaaaaa"


async def test_a_drain_that_came_first_has_the_model_and_the_unload_nothing(
    host: ModelHost, make_model: MakeModel
) -> None:
    running = asking(host, make_model)
    await until(lambda: host.status().state is HostState.BUSY)
    drained = host.drain()
    await asyncio.sleep(0)
    unloading = asyncio.create_task(host.unload())

    assert await asyncio.wait_for(drained, 5) == "stand-in"
    assert (await soon(unloading)).model_id is None
    assert await running == "aaaaaa"


@pytest.mark.parametrize("bounds", [(NEVER, NEVER), (NOW, NEVER), (NEVER, NOW), (NOW, NOW)])
async def test_of_two_unloads_one_has_the_model(
    host: ModelHost, make_model: MakeModel, bounds: tuple[float | None, float | None]
) -> None:
    running = asking(host, make_model)
    await until(lambda: host.status().state is HostState.BUSY)
    unloads = [asyncio.create_task(host.unload(bound)) for bound in bounds]

    assert [(await soon(unload)).model_id for unload in unloads] == ["stand-in", None]
    await asyncio.wait({running})
    assert await ask(host, make_model()) == "ok"


async def test_an_unload_in_a_load_waits_for_the_request_that_wanted_it(host: ModelHost, make_model: MakeModel) -> None:
    loading = asyncio.create_task(ask(host, make_model(load_s=0.2)))
    await until(lambda: host.status().state is HostState.LOADING)

    assert (await soon(asyncio.create_task(host.unload()))).model_id == "stand-in"
    assert await loading == "ok"


async def test_a_bound_ends_a_load(host: ModelHost, make_model: MakeModel) -> None:
    loading = asyncio.create_task(ask(host, make_model(at={"load": "sleep"})))
    await until(lambda: host.status().state is HostState.LOADING)
    worker = pid_of(host)

    # What was not loaded was not unloaded.
    assert (await soon(asyncio.create_task(host.unload(NOW)))).model_id is None
    assert not psutil.pid_exists(worker)

    with pytest.raises(ModelUnloaded, match="unloaded"):
        await loading


async def test_an_unload_in_a_back_off_is_done_at_once_and_the_load_begins_in_its_time(
    settings: SupervisorSettings, make_model: MakeModel
) -> None:
    restart = RestartSettings(first_backoff_s=0.3, longest_backoff_s=0.3, jitter=0.0)
    host = ModelHost(replace(settings, restart=restart))
    await ask(host, make_model("good"))
    make_model(at={"load": "exit:1"})

    with pytest.raises(SupervisorError):
        await ask(host, make_model(at={"load": "exit:1"}))

    waiting = asyncio.create_task(ask(host, make_model()))
    await until(lambda: host.status().waiting == 1)

    for bound in (NEVER, NOW):
        assert (await asyncio.wait_for(host.unload(bound), 0.25)).model_id is None

    assert await asyncio.wait_for(waiting, 5) == "ok"
    await host.close()


async def test_past_its_bound_an_unload_ends_the_answer_that_runs(host: ModelHost, make_model: MakeModel) -> None:
    running = asking(host, make_model, ENDLESS)
    await until(lambda: host.status().state is HostState.BUSY)
    waiting = asyncio.create_task(ask(host, make_model()))
    loop = asyncio.get_running_loop()
    began = loop.time()

    assert (await soon(asyncio.create_task(host.unload(0.2)))).model_id == "stand-in"
    assert 0.2 <= loop.time() - began < 2.0

    with pytest.raises(ModelUnloaded) as caught:
        await running

    assert caught.value.retry_after_s > 0
    # Those who wait are served by the next worker.
    assert await asyncio.wait_for(waiting, 5) == "ok"
    assert host.status().generation == 2
    assert host.status().restarts == 0


async def test_an_answer_that_ends_within_the_bound_is_whole(host: ModelHost, make_model: MakeModel) -> None:
    running = asking(host, make_model)
    await until(lambda: host.status().state is HostState.BUSY)
    assert (await soon(asyncio.create_task(host.unload(5.0)))).model_id == "stand-in"
    assert await running == "aaaaaa"


@pytest.mark.parametrize("end", ["unload", "drain"])
async def test_a_worker_that_hears_no_cancel_is_killed_for_it(host: ModelHost, make_model: MakeModel, end: str) -> None:
    running = asyncio.create_task(ask(host, make_model(text=["a", "b"], at={"token:1": "sleep"}), "x"))
    await until(lambda: host.status().state is HostState.BUSY)
    worker = pid_of(host)

    if end == "unload":
        assert (await soon(asyncio.create_task(host.unload(NOW)))).model_id == "stand-in"
    else:
        assert await asyncio.wait_for(host.drain(NOW), 5) == "stand-in"

    assert not psutil.pid_exists(worker)

    with pytest.raises(ModelUnloaded if end == "unload" else ServerDraining):
        await running


@pytest.mark.parametrize("end", ["unload", "drain"])
async def test_a_client_that_does_not_go_on_keeps_no_operator_waiting(
    host: ModelHost, make_model: MakeModel, end: str
) -> None:
    """Its handler is stuck in a write, so its block does not end."""
    is_stuck, may_go_on = asyncio.Event(), asyncio.Event()

    async def reading() -> None:
        async with host.turn(make_model()) as turn:
            stream = turn.generate(GenerationTask(prompt=(ENDLESS,), max_tokens=1000, sampling=GREEDY))

            while not isinstance(await stream.receive(), Delta):
                pass

            is_stuck.set()
            await may_go_on.wait()

            async for _ in stream:
                pass

    stuck = asyncio.create_task(reading())
    await is_stuck.wait()

    if end == "unload":
        assert (await soon(asyncio.create_task(host.unload(NOW)))).model_id == "stand-in"
        assert await asyncio.wait_for(ask(host, make_model()), 5) == "ok"
    else:
        assert await asyncio.wait_for(host.drain(NOW), 5) == "stand-in"

    may_go_on.set()

    with pytest.raises(ModelUnloaded if end == "unload" else ServerDraining):
        await stuck

    if end == "unload":
        # Its late end has taken nothing from those who came after.
        assert await asyncio.wait_for(ask(host, make_model()), 5) == "ok"
        assert host.status().generation == 2


async def test_an_unload_whose_caller_leaves_interrupts_nothing_later(host: ModelHost, make_model: MakeModel) -> None:
    running = asking(host, make_model)
    await until(lambda: host.status().state is HostState.BUSY)
    leaving = asyncio.create_task(host.unload(0.1))
    await asyncio.sleep(0.01)
    leaving.cancel()
    await asyncio.wait({leaving})

    assert await running == "aaaaaa"
    assert await ask(host, make_model()) == "ok"
    assert host.status().generation == 1


async def test_a_model_is_reported_by_the_one_who_released_it_alone(host: ModelHost, make_model: MakeModel) -> None:
    """The second one's time is over while the first one stops the worker, which takes a moment."""
    await ask(host, make_model(ignore_term=True))
    first = asyncio.create_task(host.unload())
    await asyncio.sleep(0.05)
    second = asyncio.create_task(host.unload(0.05))

    assert (await soon(first)).model_id == "stand-in"
    assert (await soon(second)).model_id is None


async def test_a_model_that_a_drain_released_is_no_later_unloads(host: ModelHost, make_model: MakeModel) -> None:
    running = asking(host, make_model, ENDLESS)
    await until(lambda: host.status().state is HostState.BUSY)
    drained = host.drain(0.0)
    unloading = asyncio.create_task(host.unload())

    assert await asyncio.wait_for(drained, 5) == "stand-in"
    assert (await soon(unloading)).model_id is None

    with pytest.raises(ServerDraining):
        await running


@pytest.fixture
async def new_host(settings: SupervisorSettings) -> AsyncIterator[Callable[[], ModelHost]]:
    hosts: list[ModelHost] = []

    def make() -> ModelHost:
        hosts.append(ModelHost(settings))
        return hosts[-1]

    yield make

    for host in hosts:
        await host.close()

    await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(6))
async def test_any_order_of_commands_and_requests_comes_to_an_end(
    new_host: Callable[[], ModelHost], make_model: MakeModel, seed: int
) -> None:
    chance = random.Random(seed)
    host = new_host()
    prompt = '@stand-in {"text": ["a", "a"], "delay_s": 0.02}'
    requests: list[asyncio.Task[str]] = []
    unloads: list[asyncio.Task[UnloadReport]] = []

    for _ in range(25):
        name = chance.choice(("one", "two"))

        match chance.randrange(4):
            case 0:
                unloads.append(asyncio.create_task(host.unload(chance.choice((None, 0.0, 0.03)))))
            case _:
                requests.append(asyncio.create_task(ask(host, make_model(name), prompt)))

        await asyncio.sleep(chance.uniform(0.0, 0.04))

    drained = host.drain(chance.choice((None, 0.0, 0.05)))
    late = asyncio.create_task(host.unload())
    ends = await asyncio.wait_for(asyncio.gather(*requests, return_exceptions=True), 20)
    assert all(end == "aa" or isinstance(end, SupervisorError) for end in ends), ends
    assert all(type(end) is not SupervisorError for end in ends)
    await asyncio.wait_for(asyncio.gather(drained, late, *unloads), 10)
    # More reports of a model than loads there were would be a model that was released twice.
    released = [task.result().model_id for task in (*unloads, late)] + [drained.result()]
    assert sum(model is not None for model in released) <= host.status().generation
    assert host.status().state is HostState.DRAINING
    assert host.status().worker_pid is None
