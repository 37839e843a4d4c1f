"""The server as a process: drain, signals, exit statuses, its address."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

import aiohttp
import psutil
import pytest

from supervisor.settings import ModelRef
from tests.whole.conftest import StartProcess, content_of, events_of

MakeModel = Callable[..., ModelRef]
CHAT = {"model": "stand-in", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1000}


async def _chat(url: str, begun: asyncio.Event | None = None, **fields: Any) -> tuple[int, Any]:
    """begun: set when the answer begins; before that, whatever ends it is no event of a stream."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/chat/completions", json=CHAT | fields) as answer,
    ):
        if begun is not None:
            begun.set()

        if fields.get("stream") and answer.status == 200:
            return answer.status, events_of(await answer.text())

        return answer.status, await answer.json()


async def _post(url: str, path: str, **options: Any) -> Any:
    async with aiohttp.ClientSession() as session, session.post(url + path, **options) as answer:
        return await answer.json()


async def _health(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/health") as answer:
        return await answer.json()


async def _until_state(url: str, state: str) -> Any:
    async with asyncio.timeout(10):
        while (health := await _health(url))["state"] != state:
            await asyncio.sleep(0.005)

    return health


def _assert_clean(output: str) -> None:
    assert "Traceback" not in output, output


async def test_drain_answers_and_exits_with_0(start_process: StartProcess, make_model: MakeModel) -> None:
    make_model()
    server = await start_process()
    await _chat(server.base_url)
    worker = (await _health(server.base_url))["worker"]["pid"]

    assert await _post(server.base_url, "/v1/drain") == {"drained": True, "model": "stand-in", "exit_in_ms": 250}
    assert not psutil.pid_exists(worker)
    status, output = await asyncio.wait_for(server.finish(), 5)
    assert status == 0
    _assert_clean(output)


async def test_drain_with_nothing_loaded_exits_too(start_process: StartProcess, make_model: MakeModel) -> None:
    server = await start_process()

    assert await _post(server.base_url, "/v1/drain") == {"drained": False, "model": None, "exit_in_ms": 250}
    assert (await asyncio.wait_for(server.finish(), 5))[0] == 0


async def test_a_refused_drain_schedules_no_exit(start_process: StartProcess, make_model: MakeModel) -> None:
    make_model()
    server = await start_process()

    assert (await _post(server.base_url, "/v1/drain", data="[1]"))["error"]["type"] == "invalid_request_error"
    await asyncio.sleep(0.5)
    assert (await _chat(server.base_url))[0] == 200


async def test_drain_lets_a_stream_end_whole_and_refuses_what_is_new(
    start_process: StartProcess, make_model: MakeModel
) -> None:
    make_model(text=["a"] * 60, delay_s=0.02)
    server = await start_process()
    stream = asyncio.create_task(_chat(server.base_url, stream=True))
    await _until_state(server.base_url, "busy")
    draining = asyncio.create_task(_post(server.base_url, "/v1/drain"))
    await _until_state(server.base_url, "draining")
    status, refused = await _chat(server.base_url)

    assert status == 503
    assert refused["error"]["code"] == "server_draining"
    assert (await draining)["drained"] is True
    status, events = await stream
    assert content_of(events) == "a" * 60
    assert events[-1] == "[DONE]"
    assert (await asyncio.wait_for(server.finish(), 5))[0] == 0


async def test_two_drains_get_the_same_answer(start_process: StartProcess, make_model: MakeModel) -> None:
    make_model(text=["a"] * 20, delay_s=0.02)
    server = await start_process()
    stream = asyncio.create_task(_chat(server.base_url, stream=True))
    await _until_state(server.base_url, "busy")
    answers = await asyncio.gather(*(_post(server.base_url, "/v1/drain") for _ in range(2)))

    assert answers[0] == answers[1] == {"drained": True, "model": "stand-in", "exit_in_ms": 250}
    await stream
    assert (await asyncio.wait_for(server.finish(), 5))[0] == 0


async def test_a_drain_goes_on_when_its_client_leaves(start_process: StartProcess, make_model: MakeModel) -> None:
    make_model(text=["a"] * 30, delay_s=0.02)
    server = await start_process()
    stream = asyncio.create_task(_chat(server.base_url, stream=True))
    await _until_state(server.base_url, "busy")
    draining = asyncio.create_task(_post(server.base_url, "/v1/drain"))
    await _until_state(server.base_url, "draining")
    draining.cancel()

    assert content_of((await stream)[1]) == "a" * 30
    assert (await asyncio.wait_for(server.finish(), 5))[0] == 0


async def test_drain_with_a_bound_cuts_the_stream_with_an_error(
    start_process: StartProcess, make_model: MakeModel
) -> None:
    make_model(text=["a"] * 1000, delay_s=0.02)
    server = await start_process()
    begun = asyncio.Event()
    stream = asyncio.create_task(_chat(server.base_url, begun, stream=True))
    await begun.wait()
    await _post(server.base_url, "/v1/drain", json={"timeout_ms": 100})
    _, events = await asyncio.wait_for(stream, 5)

    assert events[-2]["error"]["code"] == "server_draining"
    assert events[-1] == "[DONE]"
    assert (await asyncio.wait_for(server.finish(), 5))[0] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_finishes_the_stream_and_exits_with_0(
    start_process: StartProcess, make_model: MakeModel, number: signal.Signals
) -> None:
    make_model(text=["a"] * 40, delay_s=0.02)
    server = await start_process()
    stream = asyncio.create_task(_chat(server.base_url, stream=True))
    worker = (await _until_state(server.base_url, "busy"))["worker"]["pid"]
    server.process.send_signal(number)
    _, events = await stream

    assert content_of(events) == "a" * 40
    status, output = await asyncio.wait_for(server.finish(), 5)
    assert status == 0
    _assert_clean(output)
    assert not psutil.pid_exists(worker)


async def test_a_second_signal_cuts_it_short(start_process: StartProcess, make_model: MakeModel) -> None:
    make_model(text=["a"] * 1000, delay_s=0.02)
    server = await start_process()
    begun = asyncio.Event()
    stream = asyncio.create_task(_chat(server.base_url, begun, stream=True))
    await begun.wait()
    server.process.send_signal(signal.SIGINT)
    await _until_state(server.base_url, "draining")
    server.process.send_signal(signal.SIGINT)
    _, events = await asyncio.wait_for(stream, 5)

    assert events[-2]["error"]["code"] == "server_draining"
    status, output = await asyncio.wait_for(server.finish(), 5)
    assert status == 0
    _assert_clean(output)


async def test_a_signal_in_a_load_ends_it(start_process: StartProcess, make_model: MakeModel) -> None:
    make_model(load_s=30)
    server = await start_process(PRISM_MODEL="stand-in")
    worker = (await _until_state(server.base_url, "loading"))["worker"]["pid"]
    server.process.send_signal(signal.SIGTERM)
    status, output = await asyncio.wait_for(server.finish(), 10)

    assert status == 0
    _assert_clean(output)
    assert not psutil.pid_exists(worker)


async def test_the_model_of_the_flag_is_loaded_before_the_first_request(
    start_process: StartProcess, make_model: MakeModel
) -> None:
    make_model()
    server = await start_process(PRISM_MODEL="stand-in")

    assert (await _until_state(server.base_url, "ready"))["active_model"] == "stand-in"


async def test_a_port_that_is_taken_is_a_temporary_failure(start_process: StartProcess, make_model: MakeModel) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()

        with pytest.raises(AssertionError, match=r"is in use.*--port"):
            await start_process(PRISM_PORT=str(taken.getsockname()[1]))


async def test_a_killed_front_takes_its_worker_along(start_process: StartProcess, make_model: MakeModel) -> None:
    make_model(text=["a"] * 1000, delay_s=0.02)
    server = await start_process()
    stream = asyncio.create_task(_chat(server.base_url, stream=True))
    worker = psutil.Process((await _until_state(server.base_url, "busy"))["worker"]["pid"])
    os.kill(server.process.pid, signal.SIGKILL)

    with pytest.raises(aiohttp.ClientError):
        await stream

    async with asyncio.timeout(1):
        while worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE:
            await asyncio.sleep(0.001)
