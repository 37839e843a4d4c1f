"""When the host starts a model again whose workers end: back-off, breaker, bad folders, poison prompts. With the stand-in."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from ipc.messages import Delta, Finished, GenerationTask, Sampling
from supervisor.errors import (
    EngineFailed,
    EngineOutOfMemory,
    ModelLoadFailed,
    ModelUnavailable,
    PromptRefused,
    ServerBusy,
    ServerDraining,
    WorkerDied,
    WorkerUnresponsive,
)
from supervisor.host_status import HostState
from supervisor.model_host import ModelHost
from supervisor.poison_prompts import PoisonBounds
from supervisor.restart_settings import RestartSettings
from supervisor.settings import ModelRef, SupervisorSettings
from supervisor.watch_bounds import WatchBounds

MakeModel = Callable[..., ModelRef]
MakeHost = Callable[..., ModelHost]
PLAIN = '@stand-in {"text": ["ok"], "at": {}}'
DYING = {"at": {"load": "exit:1"}}


def dying(number: int) -> str:
    """A prompt of its own under which a worker ends."""
    return "@stand-in " + json.dumps({"text": [str(number)], "at": {"token:1": "kill"}})


def task_of(prompt: str) -> GenerationTask:
    return GenerationTask(prompt=(prompt,), max_tokens=16, sampling=Sampling(temperature=0.0))


async def ask(host: ModelHost, model: ModelRef, prompt: str = PLAIN) -> str:
    async with host.turn(model) as turn:
        answer = [message async for message in turn.generate(task_of(prompt))]
        assert isinstance(answer[-1], Finished)
        return "".join(message.text for message in answer if isinstance(message, Delta))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


@pytest.fixture
async def make_host(settings: SupervisorSettings) -> AsyncIterator[MakeHost]:
    hosts: list[ModelHost] = []

    def make(settings: SupervisorSettings = settings, **figures: float) -> ModelHost:
        restart = RestartSettings(jitter=0.0, **figures)  # type: ignore[arg-type]  # counts among them
        hosts.append(ModelHost(replace(settings, restart=restart, poison=PoisonBounds())))
        return hosts[-1]

    yield make

    for host in hosts:
        await host.close()

    await asyncio.sleep(0)


async def die(host: ModelHost, model: ModelRef, times: int) -> None:
    for number in range(times):
        with pytest.raises(WorkerDied):
            await ask(host, model, dying(number))


async def test_a_model_that_keeps_failing_is_refused_at_once_and_another_one_is_served(
    make_host: MakeHost, make_model: MakeModel
) -> None:
    host = make_host(first_backoff_s=0.01, open_s=60.0)
    bad = make_model("bad", **DYING)
    good = make_model("good")

    for _ in range(2):
        # Two loads for the first request, and the third one for the second.
        with pytest.raises(ModelLoadFailed, match="made-up last words"):
            await ask(host, bad)

    loads = host.status().generation
    before = time.monotonic()

    with pytest.raises(ModelUnavailable, match="made-up last words") as caught:
        await ask(host, bad)

    assert time.monotonic() - before < 0.1
    assert 0 < caught.value.retry_after_s <= 60
    assert loads == host.status().generation == 3
    assert await ask(host, good) == "ok"

    with pytest.raises(ModelUnavailable):
        await ask(host, bad)

    assert host.status().model_id == "good"


async def test_a_breaker_heals_by_itself_with_one_request_that_succeeds(
    make_host: MakeHost, make_model: MakeModel
) -> None:
    host = make_host(first_backoff_s=0.01, open_s=0.2)
    model = make_model(**DYING)

    for error in (ModelLoadFailed, ModelLoadFailed, ModelUnavailable):
        with pytest.raises(error):
            await ask(host, model)

    make_model()
    await asyncio.sleep(0.25)
    assert await ask(host, model) == "ok"
    assert await ask(host, model) == "ok"


async def test_a_bad_folder_is_refused_until_a_file_of_it_changes(make_host: MakeHost, make_model: MakeModel) -> None:
    host = make_host()
    model = make_model(load_error={"code": "bad_model", "message": "tokenizer.json is missing"})

    with pytest.raises(ModelLoadFailed, match="tokenizer"):
        await ask(host, model)

    for _ in range(3):
        with pytest.raises(ModelUnavailable, match=r"tokenizer.*when a file of its folder changes"):
            await ask(host, model)

    assert host.status().generation == 1
    make_model()
    assert await ask(host, model) == "ok"


async def test_a_load_without_memory_is_no_broken_model(make_host: MakeHost, make_model: MakeModel) -> None:
    host = make_host()
    model = make_model(load_error={"code": "out_of_memory", "message": "bad allocation"})

    with pytest.raises(EngineOutOfMemory, match="bad allocation"):
        await ask(host, model)


async def test_the_first_death_costs_no_wait_and_the_next_ones_do(make_host: MakeHost, make_model: MakeModel) -> None:
    host = make_host(first_backoff_s=1.0)
    model = make_model()
    before = time.monotonic()
    await die(host, model, 2)
    assert time.monotonic() - before < 1.0
    asking = asyncio.create_task(ask(host, model))
    await until(lambda: host.status().waiting == 1)
    assert await asking == "ok"
    assert time.monotonic() - before > 1.0


async def test_a_back_off_holds_up_nobody_else_and_costs_nobody_the_place(
    make_host: MakeHost, make_model: MakeModel
) -> None:
    host = make_host(first_backoff_s=1.5)
    ill, well = make_model("ill"), make_model("well")
    await die(host, ill, 2)
    order: list[str] = []

    async def one(name: str, model: ModelRef) -> None:
        assert await ask(host, model) == "ok"
        order.append(name)

    waiting = [asyncio.create_task(one(f"ill {number}", ill)) for number in range(2)]
    await asyncio.sleep(0.01)
    assert host.status().waiting == 2

    for number in range(2):
        await asyncio.wait_for(one(f"well {number}", well), 1.0)

    await asyncio.gather(*waiting)
    assert order == ["well 0", "well 1", "ill 0", "ill 1"]


async def test_one_who_leaves_in_a_back_off_leaves_nothing(make_host: MakeHost, make_model: MakeModel) -> None:
    host = make_host(first_backoff_s=0.3)
    model = make_model()
    await die(host, model, 2)
    waiting = asyncio.create_task(ask(host, model))
    await until(lambda: host.status().waiting == 1)
    waiting.cancel()
    await asyncio.wait({waiting})

    assert (host.status().waiting, host.status().state) == (0, HostState.IDLE)
    assert (await host.unload()).model_id is None
    assert await ask(host, model) == "ok"


async def test_a_drain_refuses_those_in_a_back_off_and_does_not_wait_for_it(
    make_host: MakeHost, make_model: MakeModel
) -> None:
    host = make_host(first_backoff_s=4.0)
    model = make_model()
    await die(host, model, 2)
    waiting = asyncio.create_task(ask(host, model))
    await until(lambda: host.status().waiting == 1)
    drained = host.drain()

    with pytest.raises(ServerDraining):
        await waiting

    assert await asyncio.wait_for(drained, 1) is None


async def test_a_back_off_that_is_longer_than_the_patience_is_told_at_once(
    make_host: MakeHost, settings: SupervisorSettings, make_model: MakeModel
) -> None:
    host = make_host(replace(settings, queue_timeout_s=2.0), first_backoff_s=10.0)
    model = make_model()
    await die(host, model, 2)

    with pytest.raises(ModelUnavailable) as caught:
        await asyncio.wait_for(ask(host, model), 0.5)

    assert 5 < caught.value.retry_after_s <= 10


async def test_those_in_a_back_off_count_as_waiting(
    make_host: MakeHost, settings: SupervisorSettings, make_model: MakeModel
) -> None:
    host = make_host(replace(settings, max_queue=1), first_backoff_s=1.0)
    ill, well = make_model("ill"), make_model("well")
    await die(host, ill, 2)
    waiting = asyncio.create_task(ask(host, ill))
    await until(lambda: host.status().waiting == 1)

    with pytest.raises(ServerBusy):
        await ask(host, ill)

    # This one would not have to wait.
    assert await ask(host, well) == "ok"
    assert await waiting == "ok"


async def test_a_load_that_dies_is_tried_again_after_its_back_off_while_others_are_served(
    make_host: MakeHost, make_model: MakeModel
) -> None:
    host = make_host(first_backoff_s=1.5, failed_loads_to_open=9)
    ill, well = make_model("ill", **DYING), make_model("well")

    with pytest.raises(ModelLoadFailed):
        await ask(host, ill)

    trying = asyncio.create_task(ask(host, ill))
    await until(lambda: host.status().waiting == 1)
    assert await asyncio.wait_for(ask(host, well), 1.4) == "ok"
    make_model("ill")
    assert await asyncio.wait_for(trying, 5) == "ok"


async def test_a_prompt_that_ended_two_workers_is_refused_and_others_are_not(
    make_host: MakeHost, make_model: MakeModel
) -> None:
    host = make_host(first_backoff_s=0.01)
    model = make_model()

    for _ in range(2):
        with pytest.raises(WorkerDied):
            await ask(host, model, dying(0))

    for _ in range(2):
        with pytest.raises(PromptRefused, match="ended under this prompt"):
            await ask(host, model, dying(0))

    assert await ask(host, model) == "ok"
    assert host.status().generation == 3

    with pytest.raises(PromptRefused):
        host.check_task(model, task_of(dying(0)))

    host.check_task(model, task_of(PLAIN))


async def test_a_stop_by_us_is_no_fault_of_the_model(make_host: MakeHost, make_model: MakeModel) -> None:
    host = make_host(first_backoff_s=30.0, deaths_to_open=2)
    one, two = make_model("one"), make_model("two")

    for _ in range(3):
        assert await ask(host, one) == "ok"
        assert await ask(host, two) == "ok"
        assert (await host.unload()).model_id == "two"
        leaving = asyncio.create_task(ask(host, one, '@stand-in {"delay_s": 0.05}'))
        await until(lambda: host.status().state is HostState.BUSY)
        leaving.cancel()

    assert await asyncio.wait_for(ask(host, one), 5) == "ok"


FATAL = '@stand-in {{"fail": {{"code": "{code}", "message": "{number}", "is_fatal": true}}}}'


async def test_an_engine_that_breaks_for_good_counts_as_a_death(make_host: MakeHost, make_model: MakeModel) -> None:
    host = make_host(first_backoff_s=0.01, deaths_to_open=3)
    model = make_model()

    for number in range(3):
        with pytest.raises(EngineFailed):
            await ask(host, model, FATAL.format(code="engine_error", number=number))

    with pytest.raises(ModelUnavailable, match="keeps ending: 2"):
        await ask(host, model)


async def test_a_recycle_for_memory_is_no_death(make_host: MakeHost, make_model: MakeModel) -> None:
    host = make_host(first_backoff_s=30.0, deaths_to_open=2)
    model = make_model()

    for number in range(4):
        with pytest.raises(EngineOutOfMemory):
            await ask(host, model, FATAL.format(code="out_of_memory", number=number))

    assert await asyncio.wait_for(ask(host, model), 5) == "ok"


async def test_a_hang_counts_as_a_death_and_against_its_prompt(
    make_host: MakeHost, settings: SupervisorSettings, make_model: MakeModel
) -> None:
    watch = WatchBounds(interval_s=0.05, request_stall_s=0.3)
    host = make_host(replace(settings, watch=watch), first_backoff_s=0.01, deaths_to_open=2)
    model = make_model()
    hanging = '@stand-in {"at": {"token:1": "sleep"}}'

    for _ in range(2):
        with pytest.raises(WorkerUnresponsive):
            await ask(host, model, hanging)

    with pytest.raises(PromptRefused):
        host.check_task(model, task_of(hanging))

    with pytest.raises(ModelUnavailable, match="no sign of work"):
        await ask(host, model)


async def test_deaths_of_an_idle_worker_count_and_open_the_breaker(make_host: MakeHost, make_model: MakeModel) -> None:
    host = make_host(first_backoff_s=0.01, deaths_to_open=3)
    model = make_model(text=["ok"], at={"after-end": "kill"})

    for number in range(3):
        assert await ask(host, model, str(number)) == "ok"
        await until(lambda: host.status().worker_pid is None)

    await asyncio.sleep(0.05)

    with pytest.raises(ModelUnavailable, match="SIGKILL"):
        await ask(host, model)
