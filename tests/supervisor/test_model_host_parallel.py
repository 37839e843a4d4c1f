"""Several requests on one worker at the same time. With the stand-in, which takes three."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from ipc.messages import Delta, GenerationTask, Sampling, Started
from supervisor.errors import SupervisorError, WorkerDied
from supervisor.host_status import HostState
from supervisor.model_host import ModelHost, Turn
from supervisor.poison_prompts import PoisonBounds
from supervisor.settings import ModelRef, SupervisorSettings
from tests.supervisor.host_talk import MakeModel, kill_and_wait_dead, pid_of, until

SLOW = {"parallel": 3, "delay_s": 0.01, "text": [f"{n} " for n in range(60)]}
QUICK = '@stand-in {"text": ["x"], "delay_s": 0}'


@pytest.fixture
async def host(settings: SupervisorSettings) -> AsyncIterator[ModelHost]:
    host = ModelHost(replace(settings, parallel=4, poison=PoisonBounds()))
    yield host
    await host.close()


def task(prompt: str = "a b c", max_tokens: int = 100) -> GenerationTask:
    return GenerationTask(prompt=(prompt,), max_tokens=max_tokens, sampling=Sampling(temperature=0.0))


async def collect(turn: Turn) -> str:
    return "".join([message.text async for message in turn.generate(task()) if isinstance(message, Delta)])


async def ask(host: ModelHost, model: ModelRef, prompt: str = "a b c", begun: asyncio.Event | None = None) -> str:
    async with host.turn(model) as turn:
        text = ""

        async for message in turn.generate(task(prompt)):
            match message:
                case Started() if begun is not None:
                    begun.set()
                case Delta(text=piece):
                    text += piece
                case _:
                    pass

        return text


async def test_as_many_run_together_as_the_worker_takes(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(**SLOW)
    answers = [asyncio.create_task(ask(host, model)) for _ in range(4)]
    await until(lambda: host.status().running == 3)
    status = host.status()
    assert (status.state, status.waiting) == (HostState.BUSY, 1)
    assert await asyncio.gather(*answers) == ["".join(SLOW["text"])] * 4  # type: ignore[arg-type]
    assert host.status().state is HostState.READY
    assert host.status().generation == 1


async def test_a_quick_request_does_not_wait_for_a_slow_one(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(**SLOW | {"text": ["x"] * 2_000})
    slow = asyncio.create_task(ask(host, model))
    await until(lambda: host.status().running == 1)
    assert await asyncio.wait_for(ask(host, model, QUICK), 5) == "x"
    assert not slow.done()
    slow.cancel()
    await until(lambda: host.status().state is HostState.READY)


async def test_the_setting_bounds_what_the_worker_gets(settings: SupervisorSettings, make_model: MakeModel) -> None:
    host = ModelHost(settings)
    model = make_model(**SLOW)

    try:
        answers = [asyncio.create_task(ask(host, model)) for _ in range(3)]
        await until(lambda: host.status().running == 1)
        assert host.status().waiting == 2
        await asyncio.gather(*answers)
    finally:
        await host.close()


async def test_a_death_fails_all_that_ran_once_and_who_waited_is_served(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(**SLOW)
    begun = [asyncio.Event() for _ in range(3)]
    running = [asyncio.create_task(ask(host, model, begun=event)) for event in begun]
    await asyncio.gather(*(event.wait() for event in begun))
    waiting = [asyncio.create_task(ask(host, model, QUICK)) for _ in range(3)]
    await until(lambda: host.status().waiting == 3)
    kill_and_wait_dead(pid_of(host))
    ends = await asyncio.gather(*running, return_exceptions=True)
    assert [type(end) for end in ends] == [WorkerDied] * 3
    assert await asyncio.gather(*waiting) == ["x"] * 3
    assert (host.status().generation, host.status().restarts) == (2, 1)


async def test_nobody_is_blamed_for_a_death_among_several(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(**SLOW)

    for _ in range(2):
        begun = [asyncio.Event() for _ in range(2)]
        running = [asyncio.create_task(ask(host, model, begun=event)) for event in begun]
        await asyncio.gather(*(event.wait() for event in begun))
        kill_and_wait_dead(pid_of(host))
        await asyncio.gather(*running, return_exceptions=True)

    host.check_task(model, task())


async def test_one_that_leaves_frees_its_place_and_disturbs_nobody(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(**SLOW)
    begun = asyncio.Event()
    leaver = asyncio.create_task(ask(host, model, begun=begun))
    others = [asyncio.create_task(ask(host, model)) for _ in range(2)]
    await begun.wait()
    late = asyncio.create_task(ask(host, model))
    await until(lambda: host.status().waiting == 1)
    leaver.cancel()
    await until(lambda: host.status().waiting == 0)
    assert len(set(await asyncio.gather(*others, late))) == 1


async def test_another_model_gets_the_worker_when_all_are_done(host: ModelHost, make_model: MakeModel) -> None:
    first, second = make_model(**SLOW), make_model(name="other", text=["y"])
    running = [asyncio.create_task(ask(host, first)) for _ in range(2)]
    await until(lambda: host.status().running == 2)
    swapped = asyncio.create_task(ask(host, second))
    late = asyncio.create_task(ask(host, first, QUICK))
    await until(lambda: host.status().waiting == 2)
    assert host.status().running == 2, "nobody joins past one who waits to be alone"
    assert await swapped == "y"
    assert all(task.done() for task in running)
    assert await late == "x"


async def test_unload_waits_for_all_and_goes_ahead_of_who_waits(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(**SLOW)
    running = [asyncio.create_task(ask(host, model)) for _ in range(2)]
    await until(lambda: host.status().running == 2)
    unload = asyncio.create_task(host.unload())
    await asyncio.sleep(0)
    late = asyncio.create_task(ask(host, model, QUICK))
    assert (await unload).model_id == model.model_id
    assert all(task.done() for task in running)
    assert await late == "x"
    assert host.status().generation == 2


async def test_a_drain_past_its_time_cuts_all_of_them(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(**SLOW | {"text": ["x"] * 5_000})
    running = [asyncio.create_task(ask(host, model)) for _ in range(3)]
    await until(lambda: host.status().running == 3)
    assert await asyncio.wait_for(host.drain(0.05), 10) == model.model_id
    ends = await asyncio.gather(*running, return_exceptions=True)
    assert all(isinstance(end, SupervisorError) for end in ends)


async def test_requests_that_were_not_begun_go_to_the_next_worker_together(
    host: ModelHost, make_model: MakeModel
) -> None:
    """Both have the turn when the worker dies before it says a word about them: one of them loads, the other joins it."""
    model = make_model(**SLOW | {"text": ["x"]})

    async with host.turn(model) as first, host.turn(model) as second:
        kill_and_wait_dead(pid_of(host))
        assert list(await asyncio.gather(collect(first), collect(second))) == ["x", "x"]

    assert host.status().generation == 2


async def test_who_loads_again_waits_for_those_who_still_have_the_dead_worker(
    host: ModelHost, make_model: MakeModel
) -> None:
    model = make_model(**SLOW | {"text": ["x"]})

    async with host.turn(model) as first:
        async with host.turn(model):
            kill_and_wait_dead(pid_of(host))
            answer = asyncio.create_task(collect(first))
            await until(lambda: host.status().waiting == 1)
            assert host.status().generation == 1

        assert await answer == "x"
