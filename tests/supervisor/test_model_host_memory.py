"""A worker that the kernel ends for lack of memory: told as that, and only when the kernel said so."""

import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from ipc.messages import Finished, GenerationTask
from supervisor.errors import ModelUnavailable, PromptRefused, WorkerDied, WorkerOutOfMemory
from supervisor.model_host import ModelHost
from supervisor.poison_prompts import PoisonBounds
from supervisor.restart_settings import RestartSettings
from supervisor.settings import SupervisorSettings
from tests.supervisor.host_talk import GREEDY, MakeModel, ask, kill_and_wait_dead, pid_of


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    file = tmp_path / "memory.events"
    file.write_text("low 0\noom 0\noom_kill 2\n")
    return file


@pytest.fixture
async def counting(settings: SupervisorSettings, counter: Path) -> AsyncIterator[ModelHost]:
    host = ModelHost(replace(settings, oom_counter=counter, poison=PoisonBounds()))
    yield host
    await host.close()


def count(counter: Path, number: int) -> None:
    counter.write_text(f"oom_kill {number}\n")


def out_of_memory(counter: Path, phase: str = "token:1") -> str:
    return "@stand-in " + json.dumps({"text": ["a", "b"], "at": {phase: f"oom:{counter}"}})


async def test_a_kill_that_the_kernel_counted_is_a_lack_of_memory(
    counting: ModelHost, make_model: MakeModel, counter: Path
) -> None:
    model = make_model()

    with pytest.raises(WorkerOutOfMemory, match="memory ran out"):
        await ask(counting, model, out_of_memory(counter))

    assert await ask(counting, model) == "ok"


async def test_a_kill_without_evidence_stays_a_crash(counting: ModelHost, make_model: MakeModel, counter: Path) -> None:
    model = make_model()

    with pytest.raises(WorkerOutOfMemory):
        await ask(counting, model, out_of_memory(counter))

    # The count stands higher than when the server came, but has not risen under this worker.
    with pytest.raises(WorkerDied) as caught:
        await ask(counting, model, '@stand-in {"text": ["a", "b"], "at": {"token:1": "kill"}}')

    assert type(caught.value) is WorkerDied


async def test_another_signal_is_a_crash_although_memory_ran_out_elsewhere(
    counting: ModelHost, make_model: MakeModel, counter: Path
) -> None:
    async with counting.turn(make_model(text=["a"] * 500, delay_s=0.02)) as turn:
        stream = turn.generate(GenerationTask(prompt=("x",), max_tokens=500, sampling=GREEDY))
        await stream.receive()
        count(counter, 3)
        os.kill(pid_of(counting), signal.SIGSEGV)

        with pytest.raises(WorkerDied, match="SIGSEGV") as caught:
            await anext(message async for message in stream if isinstance(message, Finished))

    assert type(caught.value) is WorkerDied


async def test_an_idle_worker_that_was_taken_costs_the_next_request_nothing(
    counting: ModelHost, make_model: MakeModel, counter: Path
) -> None:
    model = make_model()
    await ask(counting, model)
    count(counter, 3)
    kill_and_wait_dead(pid_of(counting))

    assert await ask(counting, model) == "ok"
    assert counting.status().generation == 2


async def test_a_load_that_is_taken_is_not_tried_again_at_once(
    counting: ModelHost, make_model: MakeModel, counter: Path
) -> None:
    with pytest.raises(WorkerOutOfMemory, match="memory ran out"):
        await ask(counting, make_model(at={"load": f"oom:{counter}"}))

    assert counting.status().generation == 1


async def test_no_prompt_is_blamed(counting: ModelHost, make_model: MakeModel, counter: Path) -> None:
    model = make_model()

    for _ in range(4):
        with pytest.raises(WorkerOutOfMemory):
            await ask(counting, model, out_of_memory(counter))

    for _ in range(2):
        with pytest.raises(WorkerDied):
            await ask(counting, model, '@stand-in {"text": ["a", "b"], "at": {"token:1": "kill"}}')

    with pytest.raises(PromptRefused):
        await ask(counting, model, '@stand-in {"text": ["a", "b"], "at": {"token:1": "kill"}}')


async def test_a_model_that_keeps_taking_all_memory_is_refused_for_a_while(
    settings: SupervisorSettings, make_model: MakeModel, counter: Path
) -> None:
    host = ModelHost(replace(settings, oom_counter=counter, restart=RestartSettings(first_backoff_s=0.001)))
    model = make_model()

    for _ in range(5):
        with pytest.raises(WorkerOutOfMemory):
            await ask(host, model, out_of_memory(counter))

    with pytest.raises(ModelUnavailable, match="memory ran out"):
        await ask(host, model)

    await host.close()
