"""A worker that outlives its server, as one that hangs in the kernel does: others know it, end it, or are told who is in the way."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import aiohttp
import psutil
import pytest

from supervisor import orphans
from supervisor.settings import ModelRef, SupervisorSettings
from tests.conftest import on_stand_in
from tests.whole.conftest import ServerProcess, Start, StartProcess
from tests.whole.test_life import _chat, _until_state

MakeModel = Callable[..., ModelRef]


async def _outlive(server: ServerProcess) -> int:
    """Kill a server under its worker, which is stopped and has no tie; return the worker's process id."""
    with suppress(aiohttp.ClientError):
        await _chat(server.base_url)

    worker: int = (await _until_state(server.base_url, "ready"))["worker"]["pid"]
    os.kill(worker, signal.SIGSTOP)
    server.process.kill()
    await server.process.wait()
    assert psutil.pid_exists(worker)
    return worker


def _hasty(settings: SupervisorSettings) -> SupervisorSettings:
    return replace(on_stand_in(settings), kill_wait_s=0.2)


async def _ask(server: Any, model: str) -> tuple[int, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": "x"}]}

    async with server.post("/v1/chat/completions", body) as response:
        return response.status, await response.json()


async def test_a_worker_that_outlived_its_server_is_ended_by_the_next_that_loads(
    start_process: StartProcess, start_server: Start, make_model: MakeModel
) -> None:
    make_model(outlives=True)
    make_model("other", text=["ok"])
    worker = await _outlive(await start_process())
    server = await start_server()

    assert (await _ask(server, "other"))[0] == 200
    assert not psutil.pid_exists(worker) or psutil.Process(worker).status() == psutil.STATUS_ZOMBIE


async def test_one_that_cannot_be_ended_is_the_holder_for_as_long_as_it_lives(
    start_process: StartProcess, start_server: Start, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_model(outlives=True)
    make_model("other", text=["ok"])
    worker = await _outlive(await start_process())
    # No process survives SIGKILL on demand, so none is sent.
    monkeypatch.setattr(orphans, "send_kill", lambda _: None)
    server = await start_server(_hasty)

    for _ in range(2):
        status, answer = await _ask(server, "other")
        assert (status, answer["error"]["code"]) == (503, "insufficient_resources")
        assert answer["error"]["holder"] == {"pid": worker, "model": "stand-in"}
        assert "outlived its server" in answer["error"]["message"]

    os.kill(worker, signal.SIGKILL)

    async with asyncio.timeout(5):
        while (await _ask(server, "other"))[0] != 200:
            await asyncio.sleep(0.05)
