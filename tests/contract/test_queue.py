"""One generation at a time: who waits, for how long, who goes ahead, and what `/health` says meanwhile."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import psutil
import pytest

from supervisor.host_status import HostState
from supervisor.settings import ModelRef
from tests.contract.client import CHAT, COMPLETIONS, body_of
from tests.contract.waiting import begin, leave, until, until_state, until_waiting
from tests.whole.conftest import Server, Start, events_of

MakeModel = Callable[..., ModelRef]
LONG = body_of(CHAT, {"text": ["a"] * 2000, "delay_s": 0.005}, max_tokens=2000)
SHORT = {"text": ["b"] * 10, "delay_s": 0.01}


def _note(ended: list[int], number: int, _: object) -> None:
    ended.append(number)


async def health(server: Server, path: str = "/health") -> Any:
    async with server.get(path) as response:
        return await response.json()


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_a_full_queue_refuses_at_once(start_server: Start, make_model: MakeModel, path: str) -> None:
    make_model()
    server = await start_server(max_queue=1)
    running = begin(server, CHAT, LONG)
    await until_state(server, HostState.BUSY)
    waiting = begin(server, path, body_of(path, None))
    await until_waiting(server, 1)

    for stream in (True, False):
        async with server.post(path, body_of(path, None, stream=stream)) as response:
            assert (response.status, response.headers["Retry-After"]) == (503, "30")
            assert (await response.json())["error"]["code"] == "server_busy"

    assert (await health(server))["queue"] == {"running": 1, "waiting": 1, "max": 1}
    await leave(running)
    assert (await waiting)[0] == 200


async def test_two_that_come_together_both_find_a_place(start_server: Start, make_model: MakeModel) -> None:
    """The one that runs does not count as waiting."""
    make_model(**SHORT)
    server = await start_server(max_queue=1)
    assert [
        status for status, _ in await asyncio.gather(*(begin(server, CHAT, body_of(CHAT, None)) for _ in "ab"))
    ] == [200, 200]


async def test_waiting_too_long_is_refused(start_server: Start, make_model: MakeModel) -> None:
    make_model()
    server = await start_server(queue_timeout_s=0.1)
    running = begin(server, CHAT, LONG)
    await until_state(server, HostState.BUSY)
    status, answer = await begin(server, CHAT, body_of(CHAT, None, stream=True))

    assert (status, answer["error"]["code"]) == (503, "server_busy")
    assert server.services.host.status().state is HostState.BUSY
    await leave(running)
    assert (await begin(server, CHAT, body_of(CHAT, None)))[0] == 200


async def test_without_a_bound_nobody_is_sent_away(start_server: Start, make_model: MakeModel) -> None:
    make_model(**SHORT)
    server = await start_server(queue_timeout_s=0.0, max_queue=0)
    answers = await asyncio.gather(*(begin(server, CHAT, body_of(CHAT, {"text": ["c"]})) for _ in range(20)))
    assert {status for status, _ in answers} == {200}


async def test_requests_are_answered_in_order_of_arrival(start_server: Start, make_model: MakeModel) -> None:
    make_model()
    server = await start_server()
    running = begin(server, CHAT, LONG)
    await until_state(server, HostState.BUSY)
    ended: list[int] = []
    tasks = []

    for number in range(4):
        task = begin(server, (CHAT, COMPLETIONS)[number % 2], body_of((CHAT, COMPLETIONS)[number % 2], SHORT))
        task.add_done_callback(partial(_note, ended, number))
        tasks.append(task)
        await until_waiting(server, number + 1)

    await leave(running)
    await asyncio.gather(*tasks)
    assert ended == [0, 1, 2, 3]
    assert server.services.host.status().generation == 1


async def test_another_model_takes_the_place_of_the_resident_one(start_server: Start, make_model: MakeModel) -> None:
    make_model("one", text=["1"])
    make_model("two", text=["2"])
    server = await start_server()
    workers = set()

    for model, text in (("one", "1"), ("two", "2"), ("one", "1")):
        answer = await server.chat(model=model)
        assert answer["choices"][0]["message"]["content"] == text
        state = await health(server)
        assert state["active_model"] == model
        workers.add(state["worker"]["pid"])
        assert sum(map(psutil.pid_exists, workers)) == 1

    assert len(workers) == 3


async def test_a_text_completion_that_leaves_the_queue_is_forgotten(start_server: Start, make_model: MakeModel) -> None:
    make_model()
    server = await start_server()
    running = begin(server, CHAT, LONG)
    await until_state(server, HostState.BUSY)
    waiting = begin(server, COMPLETIONS, body_of(COMPLETIONS, None))
    await until_waiting(server, 1)
    await leave(waiting)
    await until_waiting(server, 0)
    assert server.services.host.status().state is HostState.BUSY
    await leave(running)


async def test_unload_waits_for_the_running_request_and_goes_ahead_of_the_queue(
    start_server: Start, make_model: MakeModel
) -> None:
    make_model()
    server = await start_server()
    running = begin(server, CHAT, body_of(CHAT, {"text": ["a"] * 50, "delay_s": 0.01}))
    await until_state(server, HostState.BUSY)
    worker = (await health(server))["worker"]["pid"]
    waiting = begin(server, CHAT, body_of(CHAT, None))
    await until_waiting(server, 1)
    status, answer = await begin(server, "/v1/unload", b"")

    assert not psutil.pid_exists(worker)
    assert (status, answer) == (200, {"unloaded": True, "model": "stand-in"})
    assert running.done()
    assert (await running)[1]["choices"][0]["message"]["content"] == "a" * 50
    assert (await waiting)[0] == 200
    # The one that waited was served by a new worker.
    assert (await health(server))["worker"]["generation"] == 2


async def test_unload_with_a_bound_ends_the_stream_with_an_error(start_server: Start, make_model: MakeModel) -> None:
    make_model()
    server = await start_server()
    running = begin(server, CHAT, body_of(CHAT, {"text": ["a"] * 1000, "delay_s": 0.02}, stream=True, max_tokens=1000))
    await until_state(server, HostState.BUSY)

    assert await begin(server, "/v1/unload", {"timeout_ms": 100}) == (200, {"unloaded": True, "model": "stand-in"})
    status, text = await running
    *_, error, end = events_of(text)
    assert (status, error["error"]["code"], end) == (200, "model_unavailable", "[DONE]")
    assert (await begin(server, CHAT, body_of(CHAT, None)))[0] == 200


async def test_unload_goes_on_when_its_client_leaves(start_server: Start, make_model: MakeModel) -> None:
    make_model(ignore_term=True)
    server = await start_server()
    await server.chat()
    worker = (await health(server))["worker"]["pid"]
    unloading = begin(server, "/v1/unload", b"")
    await until_state(server, HostState.IDLE)
    assert psutil.pid_exists(worker)
    await leave(unloading)
    await until(lambda: not psutil.pid_exists(worker))


async def test_a_drain_refuses_those_who_wait(start_server: Start, make_model: MakeModel) -> None:
    make_model()
    server = await start_server()
    running = begin(server, CHAT, body_of(CHAT, {"text": ["a"] * 50, "delay_s": 0.01}))
    await until_state(server, HostState.BUSY)
    waiting = [begin(server, path, body_of(path, None, stream=True)) for path in (CHAT, COMPLETIONS)]
    await until_waiting(server, 2)
    draining = begin(server, "/v1/drain", {"reason": "ignored"})

    for status, answer in await asyncio.gather(*waiting):
        assert (status, answer["error"]["code"]) == (503, "server_draining")

    assert (await health(server))["state"] == "draining"
    async with server.get("/health/ready") as response:
        assert response.status == 503
        assert (await response.json())["ready"] is False

    async with server.post("/v1/unload") as response:
        assert response.status == 200

    assert (await running)[0] == 200
    assert await draining == (200, {"drained": True, "model": "stand-in", "exit_in_ms": 250})


async def test_health_answers_while_a_model_loads(start_server: Start, make_model: MakeModel) -> None:
    make_model(at={"load": "gil"})
    server = await start_server()
    loading = begin(server, CHAT, body_of(CHAT, None))
    await until_state(server, HostState.LOADING)

    for _ in range(20):
        begun = time.monotonic()
        state = await health(server)
        assert time.monotonic() - begun < 0.1
        assert (state["state"], state["active_model"]) == ("loading", None)

    await leave(loading)
    await until_state(server, HostState.IDLE)


async def test_looking_wakes_nothing(start_server: Start, make_model: MakeModel) -> None:
    make_model()
    server = await start_server()

    for path in ("/health", "/v1/status", "/health/ready", "/v1/models", "/v1/models/stand-in", "/openapi.json"):
        async with server.get(path) as response:
            assert response.status == 200

    assert server.services.host.status().generation == 0
    assert (await health(server))["state"] == "idle"
