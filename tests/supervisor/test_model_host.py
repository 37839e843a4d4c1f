"""The host with the stand-in worker: real processes, real sockets."""

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from ipc.messages import Delta, Finished, FinishReason, GenerationTask, Sampling, Started
from supervisor.errors import (
    ContextLengthExceeded,
    EngineFailed,
    EngineOutOfMemory,
    ModelLoadFailed,
    ServerBusy,
    ServerDraining,
    WorkerDied,
    WorkerUnresponsive,
)
from supervisor.host_status import HostState
from supervisor.model_host import ModelHost, Turn
from supervisor.request_stream import Answer
from supervisor.settings import ModelRef, SupervisorSettings
from supervisor.watch_bounds import WatchBounds

MakeModel = Callable[..., ModelRef]
GREEDY = Sampling(temperature=0.0)


async def ask(host: ModelHost, model: ModelRef, prompt: str = "a b c", max_tokens: int = 16) -> list[Answer]:
    async with host.turn(model) as turn:
        return [
            message
            async for message in turn.generate(GenerationTask(prompt=(prompt,), max_tokens=max_tokens, sampling=GREEDY))
        ]


def text_of(answer: list[Answer]) -> str:
    return "".join(message.text for message in answer if isinstance(message, Delta))


class Gate:
    """A FIFO at which the stand-in waits until the test lets it go on; `reached` returns when the worker is there."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.action = f"gate:{path}"
        self._path = path
        self._fd = -1

    async def reached(self) -> None:
        while self._fd < 0:
            try:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                await asyncio.sleep(0.002)

    def open(self) -> None:
        os.close(self._fd)
        self._fd = -1


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


async def test_a_request_gets_started_deltas_and_one_finished(host: ModelHost, make_model: MakeModel) -> None:
    answer = await ask(host, make_model(text=["Hel", "lo ", "", "you"]))

    assert isinstance(answer[0], Started)
    assert text_of(answer) == "Hello you"
    assert isinstance(answer[-1], Finished)
    assert answer[-1].reason is FinishReason.STOP
    assert answer[-1].completion_tokens == 4
    assert sum(isinstance(message, Finished) for message in answer) == 1


async def test_the_same_worker_serves_the_next_request(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model()
    await ask(host, model)
    first = host.status().worker_pid
    await ask(host, model)

    assert host.status().worker_pid == first
    assert host.status().generation == 1


async def test_another_model_recycles_the_worker(host: ModelHost, make_model: MakeModel) -> None:
    await ask(host, make_model("one", text=["1"]))
    first = host.status().worker_pid
    assert first is not None
    answer = await ask(host, make_model("two", text=["2"]))

    assert text_of(answer) == "2"
    assert not psutil.pid_exists(first)
    assert host.status().model_id == "two"
    assert host.status().restarts == 0


async def test_requests_are_served_in_order_of_arrival(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model()
    order: list[int] = []

    async def one(number: int) -> None:
        await ask(host, model)
        order.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(one(number))
            await asyncio.sleep(0)

    assert order == list(range(8))


@pytest.mark.parametrize(
    ("action", "words"),
    [("kill", "SIGKILL"), ("segv", "SIGSEGV"), ("abort", "made_up"), ("exit:7", "made-up last words")],
)
async def test_death_in_a_generation_is_told_once_with_the_last_words(
    host: ModelHost, make_model: MakeModel, action: str, words: str
) -> None:
    model = make_model(at={"token:3": action})
    received: list[Answer] = []

    async def collect() -> None:
        async with host.turn(model) as turn:
            async for message in turn.generate(GenerationTask(prompt=("x",), max_tokens=16, sampling=GREEDY)):
                received.append(message)  # noqa: PERF401  # what came before the error counts

    with pytest.raises(WorkerDied, match=words):
        await collect()

    assert text_of(received) == "w0 w1 w2 "
    assert host.status().state is HostState.IDLE
    assert host.status().restarts == 1


async def test_those_who_waited_are_served_by_the_next_worker(
    host: ModelHost, make_model: MakeModel, gate: Gate
) -> None:
    model = make_model(text=["ok"])
    victim = asyncio.create_task(ask(host, model, f'@stand-in {{"at": {{"token:1": "{gate.action}"}}}}'))
    await gate.reached()
    waiting = [asyncio.create_task(ask(host, model)) for _ in range(5)]
    await until(lambda: host.status().waiting == 5)
    pid = host.status().worker_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    with pytest.raises(WorkerDied):
        await victim

    assert [text_of(await task) for task in waiting] == ["ok"] * 5
    gate.open()


async def test_death_after_the_end_of_an_answer_costs_nobody_anything(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(text=["ok"], at={"after-end": "kill"})

    for _ in range(3):
        assert text_of(await ask(host, model)) == "ok"
        await until(lambda: host.status().worker_pid is None)


async def test_a_client_that_leaves_while_decoding_frees_the_worker(
    host: ModelHost, make_model: MakeModel, gate: Gate
) -> None:
    model = make_model(text=["a"] * 500, delay_s=0.01, at={"token:2": gate.action})
    task = asyncio.create_task(ask(host, model, max_tokens=500))
    await gate.reached()
    pid = host.status().worker_pid
    task.cancel()
    gate.open()
    answer = await asyncio.wait_for(ask(host, model, '@stand-in {"text": ["next"], "at": {}}'), 2)

    assert text_of(answer) == "next"
    assert host.status().worker_pid == pid
    assert task.cancelled()


async def test_a_client_that_leaves_while_prefilling_frees_the_worker(
    host: ModelHost, make_model: MakeModel, gate: Gate
) -> None:
    model = make_model(text=["next"])
    slow = f'@stand-in {{"prefill": 1000, "prefill_s": 0.01, "at": {{"started": "{gate.action}"}}}}'
    task = asyncio.create_task(ask(host, model, slow))
    await gate.reached()
    pid = host.status().worker_pid
    gate.open()
    task.cancel()

    assert text_of(await asyncio.wait_for(ask(host, model), 2)) == "next"
    assert host.status().worker_pid == pid


async def test_a_load_that_nobody_waits_for_is_ended(host: ModelHost, make_model: MakeModel, gate: Gate) -> None:
    model = make_model(at={"load": gate.action})
    task = asyncio.create_task(ask(host, model))
    await gate.reached()
    pid = host.status().worker_pid
    assert pid is not None
    assert host.status().state is HostState.LOADING
    task.cancel()
    await until(lambda: not psutil.pid_exists(pid))
    gate.open()

    assert host.status().state is HostState.IDLE


async def test_a_load_that_the_next_in_the_queue_wants_goes_on(
    host: ModelHost, make_model: MakeModel, gate: Gate
) -> None:
    model = make_model(text=["ok"], at={"load": gate.action})
    first = asyncio.create_task(ask(host, model))
    await gate.reached()
    second = asyncio.create_task(ask(host, model))
    await until(lambda: host.status().waiting == 1)
    first.cancel()
    await until(lambda: host.status().waiting == 0)
    gate.open()

    assert text_of(await second) == "ok"
    assert host.status().generation == 1


async def test_a_client_that_leaves_the_queue_frees_its_place_at_once(
    host: ModelHost, make_model: MakeModel, gate: Gate
) -> None:
    model = make_model(at={"token:1": gate.action})
    first = asyncio.create_task(ask(host, model))
    await gate.reached()
    waiting = [asyncio.create_task(ask(host, model)) for _ in range(8)]
    await until(lambda: host.status().waiting == 8)

    with pytest.raises(ServerBusy):
        await ask(host, model)

    waiting[3].cancel()
    await until(lambda: host.status().waiting == 7)
    late = asyncio.create_task(ask(host, model, '@stand-in {"at": {}}'))
    await until(lambda: host.status().waiting == 8)

    for task in [*waiting, late]:
        task.cancel()

    await until(lambda: host.status().waiting == 0)
    gate.open()
    await first


async def test_waiting_too_long_is_refused(settings: SupervisorSettings, make_model: MakeModel, gate: Gate) -> None:
    host = ModelHost(replace(settings, queue_timeout_s=0.05))
    model = make_model(at={"token:1": gate.action})
    first = asyncio.create_task(ask(host, model))
    await gate.reached()

    with pytest.raises(ServerBusy, match="queue-timeout"):
        await ask(host, model)

    gate.open()
    await first
    await host.close()


async def test_unload_returns_after_the_process_is_gone(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model()
    await ask(host, model)
    pid = host.status().worker_pid
    assert pid is not None

    assert (await host.unload()).model_id == model.model_id
    assert not psutil.pid_exists(pid)
    assert (await host.unload()).model_id is None
    assert isinstance((await ask(host, model))[-1], Finished)


async def test_unload_waits_for_the_running_request_and_goes_ahead_of_the_queue(
    host: ModelHost, make_model: MakeModel, gate: Gate
) -> None:
    model = make_model(text=["ok"])
    running = asyncio.create_task(ask(host, model, f'@stand-in {{"at": {{"token:1": "{gate.action}"}}}}'))
    await gate.reached()
    queued = asyncio.create_task(ask(host, model))
    await until(lambda: host.status().waiting == 1)
    unloading = asyncio.create_task(host.unload())
    await asyncio.sleep(0)
    gate.open()

    assert text_of(await running) == "ok"
    assert (await unloading).model_id == model.model_id
    assert text_of(await queued) == "ok"
    assert host.status().generation == 2


async def test_drain_refuses_those_who_wait_and_lets_the_running_one_end(
    host: ModelHost, make_model: MakeModel, gate: Gate
) -> None:
    model = make_model(text=["a", "b"], at={"token:1": gate.action})
    running = asyncio.create_task(ask(host, model))
    await gate.reached()
    queued = asyncio.create_task(ask(host, model))
    await until(lambda: host.status().waiting == 1)
    drained = host.drain()

    with pytest.raises(ServerDraining):
        await queued

    with pytest.raises(ServerDraining):
        await ask(host, model)

    assert not drained.done()
    gate.open()

    assert text_of(await running) == "ab"
    assert await drained == model.model_id
    assert host.drain() is drained
    assert host.status().worker_pid is None


async def test_drain_with_a_bound_cuts_the_running_request(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(text=["a"] * 500, delay_s=0.02)
    running = asyncio.create_task(ask(host, model, max_tokens=500))
    await until(lambda: host.status().state is HostState.BUSY)
    drained = host.drain(timeout_s=0.05)

    with pytest.raises(ServerDraining):
        await running

    assert await asyncio.wait_for(drained, 5) == model.model_id


async def test_drain_with_a_bound_ends_a_load(host: ModelHost, make_model: MakeModel, gate: Gate) -> None:
    model = make_model(at={"load": gate.action})
    running = asyncio.create_task(ask(host, model))
    await gate.reached()
    drained = host.drain(timeout_s=0.01)

    with pytest.raises(ServerDraining):
        await running

    assert await asyncio.wait_for(drained, 5) is None
    gate.open()


async def test_a_load_error_is_told_in_the_workers_words(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(load_error={"code": "bad_model", "message": "tokenizer.json is missing"})

    with pytest.raises(ModelLoadFailed, match=r"tokenizer\.json is missing"):
        await ask(host, model)

    assert host.status().state is HostState.IDLE
    assert host.status().restarts == 0
    make_model(text=["ok"])
    assert text_of(await ask(host, model)) == "ok"


async def test_a_load_that_finds_too_little_memory_says_so_by_type(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(load_error={"code": "out_of_memory", "message": "CUDA failure 2: out of memory"})

    with pytest.raises(EngineOutOfMemory, match="CUDA failure 2"):
        await ask(host, model)


async def test_a_load_that_dies_is_tried_once_more_and_then_told(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(at={"load": "exit:1"})

    with pytest.raises(ModelLoadFailed, match=r"exit status 1.*made-up last words"):
        await ask(host, model)

    assert host.status().generation == 2


async def test_rejections_and_engine_errors_have_their_types(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model()

    with pytest.raises(ContextLengthExceeded, match="too long"):
        await ask(host, model, '@stand-in {"reject": {"code": "context_length_exceeded", "message": "too long"}}')

    with pytest.raises(EngineFailed, match="broke"):
        await ask(host, model, '@stand-in {"fail": {"code": "engine_error", "message": "broke", "is_fatal": false}}')

    assert host.status().generation == 1

    with pytest.raises(EngineOutOfMemory):
        await ask(host, model, '@stand-in {"fail": {"code": "out_of_memory", "message": "oom", "is_fatal": true}}')

    await ask(host, model)
    assert host.status().generation == 2


@pytest.mark.parametrize("action", ["garbage", "foreign"])
async def test_a_broken_protocol_ends_the_worker_and_the_request_once(
    host: ModelHost, make_model: MakeModel, action: str
) -> None:
    model = make_model(text=["a"] * 100, delay_s=0.01, at={"token:2": action})

    with pytest.raises(WorkerDied, match="protocol"):
        await ask(host, model, max_tokens=100)

    assert text_of(await ask(host, model, '@stand-in {"text": ["ok"], "at": {}, "delay_s": 0}')) == "ok"


async def test_a_second_end_is_no_second_answer(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(text=["ok"], at={"after-end": "double-end"})
    answer = await ask(host, model)

    assert sum(isinstance(message, Finished) for message in answer) == 1
    make_model(text=["next"])
    assert text_of(await ask(host, model, '@stand-in {"text": ["next"], "at": {}}')) == "next"


async def test_a_worker_that_never_says_hello_is_ended(settings: SupervisorSettings, make_model: MakeModel) -> None:
    host = ModelHost(replace(settings, watch=WatchBounds(interval_s=0.05, request_stall_s=0.5)))

    with pytest.raises(WorkerUnresponsive, match="starting"):
        await ask(host, make_model(at={"start": "sleep"}))

    await host.close()


async def test_a_deaf_worker_is_killed_after_the_bound_of_a_cancel(
    settings: SupervisorSettings, make_model: MakeModel
) -> None:
    host = ModelHost(replace(settings, cancel_grace_s=0.2))
    model = make_model(text=["ok"])
    task = asyncio.create_task(ask(host, model, '@stand-in {"at": {"started": "sleep"}}'))
    await until(lambda: host.status().state is HostState.BUSY)
    task.cancel()

    assert text_of(await asyncio.wait_for(ask(host, model), 5)) == "ok"
    assert host.status().generation == 2
    await host.close()


async def test_a_worker_that_is_deaf_to_a_cancel_is_left_alone_until_somebody_waits(
    settings: SupervisorSettings, make_model: MakeModel
) -> None:
    host = ModelHost(replace(settings, cancel_grace_s=0.05))
    model = make_model(text=["ok"])
    task = asyncio.create_task(ask(host, model, '@stand-in {"at": {"started": "burn:0.6"}}'))
    await until(lambda: host.status().state is HostState.BUSY)
    task.cancel()
    await until(lambda: host.status().state is HostState.READY)

    assert text_of(await ask(host, model)) == "ok"
    assert host.status().generation == 1
    await host.close()


async def test_the_end_of_the_host_ends_a_worker_that_is_deaf_to_a_cancel(
    settings: SupervisorSettings, make_model: MakeModel
) -> None:
    host = ModelHost(replace(settings, cancel_grace_s=0.01))
    task = asyncio.create_task(ask(host, make_model(), '@stand-in {"at": {"started": "sleep"}}'))
    await until(lambda: host.status().state is HostState.BUSY)
    task.cancel()
    await asyncio.sleep(0.05)
    await asyncio.wait_for(host.close(), 5)

    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_worker_that_ignores_sigterm_and_its_child_are_killed(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(ignore_term=True, grandchild=True)
    await ask(host, model)
    worker = psutil.Process(host.status().worker_pid)
    family = [worker, *worker.children(recursive=True)]
    assert len(family) == 2

    assert (await host.unload()).model_id == model.model_id
    await until(lambda: not any(process.is_running() and process.status() != "zombie" for process in family))


async def test_a_flood_on_stderr_stops_nobody(host: ModelHost, make_model: MakeModel) -> None:
    assert text_of(await ask(host, make_model(text=["a", "b"], at={"token:1": "flood"}))) == "ab"


async def test_a_stopped_process_ends_with_unload(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model(at={"after-end": "stop"})
    await ask(host, model)

    assert (await asyncio.wait_for(host.unload(), 5)).model_id == model.model_id


async def test_one_turn_may_generate_several_times(host: ModelHost, make_model: MakeModel) -> None:
    async def texts(turn: Turn) -> list[str]:
        return [
            text_of([m async for m in turn.generate(GenerationTask(prompt=(p,), max_tokens=4, sampling=GREEDY))])
            for p in ("a", "b")
        ]

    async with host.turn(make_model(text=["x"])) as turn:
        assert await texts(turn) == ["x", "x"]
