"""A request that a dying worker has not begun is served by the next one."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from ipc.messages import Delta, Finished, GenerationTask, Started
from supervisor.errors import (
    ServerDraining,
    WorkerDied,
)
from supervisor.host_status import HostState
from supervisor.model_host import ModelHost
from supervisor.settings import SupervisorSettings
from tests.supervisor.host_talk import GREEDY, PLAIN, RUDE, MakeModel, ask, kill_and_wait_dead, pid_of, until


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
        answer = [
            message async for message in turn.generate(GenerationTask(prompt=(PLAIN,), max_tokens=4, sampling=GREEDY))
        ]

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
