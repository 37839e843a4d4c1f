"""A bug in the server's own supervision: it is told once, everybody who waits is told, the worker is gone, and the status is 70."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from supervisor.settings import ModelRef
from tests.whole.conftest import ServerProcess, StartProcess
from tests.whole.test_life import _chat, _until_state

MakeModel = Callable[..., ModelRef]
BROKEN = (sys.executable, "-m", "tests.serve_that_breaks")


async def _assert_ends_with_70(server: ServerProcess, worker: int) -> str:
    status, output = await asyncio.wait_for(server.finish(), 10)
    assert status == 70, output
    assert output.count("Traceback") == 1, output
    assert "made-up bug" in output
    assert "cannot keep its promises" in output
    assert not psutil.pid_exists(worker)
    return output


async def _ending(asking: "asyncio.Task[Any]") -> Any:
    return await asyncio.wait_for(asking, 10)


@pytest.mark.parametrize("part", ["bury", "reap"])
async def test_a_death_that_cannot_be_settled_ends_the_server(
    start_process: StartProcess, make_model: MakeModel, part: str
) -> None:
    make_model(text=["a"] * 1000, delay_s=0.02)
    server = await start_process(BROKEN, BREAK=part)
    begun = asyncio.Event()
    stream = asyncio.create_task(_chat(server.base_url, begun, stream=True))
    await begun.wait()
    worker = (await _until_state(server.base_url, "busy"))["worker"]["pid"]
    queued = asyncio.create_task(_chat(server.base_url))
    await asyncio.sleep(0.1)
    os.kill(worker, signal.SIGKILL)

    _, events = await _ending(stream)
    assert [event["error"]["code"] for event in events if "error" in event] == ["server_draining"]
    assert "a fault of its own" in events[-2]["error"]["message"]
    assert events[-1] == "[DONE]"
    status, refused = await _ending(queued)
    assert (status, refused["error"]["code"]) == (503, "server_draining")
    await _assert_ends_with_70(server, worker)


async def test_a_turn_that_is_not_settled_ends_the_server(start_process: StartProcess, make_model: MakeModel) -> None:
    make_model(text=["a"] * 1000, delay_s=0.02)
    server = await start_process(BROKEN, BREAK="settle")
    leaving = asyncio.create_task(_chat(server.base_url, stream=True))
    worker = (await _until_state(server.base_url, "busy"))["worker"]["pid"]
    queued = asyncio.create_task(_chat(server.base_url))
    await asyncio.sleep(0.1)
    leaving.cancel()

    status, refused = await _ending(queued)
    assert (status, refused["error"]["code"]) == (503, "server_draining")
    await _assert_ends_with_70(server, worker)


async def test_a_turn_that_is_not_handed_on_ends_the_server(start_process: StartProcess, make_model: MakeModel) -> None:
    make_model(text=["a"])
    server = await start_process(BROKEN, BREAK="release")
    await _chat(server.base_url)
    status, output = await asyncio.wait_for(server.finish(), 10)

    assert status == 70
    assert "made-up bug" in output


@pytest.mark.parametrize("part", ["hand on", "look"])
async def test_a_callback_that_breaks_ends_the_server(
    start_process: StartProcess, make_model: MakeModel, part: str
) -> None:
    make_model(at={"loaded": "sleep"} if part == "hand on" else {"load": "sleep"})
    server = await start_process(BROKEN, BREAK=part)
    asking = asyncio.create_task(_chat(server.base_url))
    worker = (await _until_state(server.base_url, "loading"))["worker"]["pid"]

    status, answer = await _ending(asking)
    assert (status, answer["error"]["code"]) == (503, "server_draining")
    await _assert_ends_with_70(server, worker)
