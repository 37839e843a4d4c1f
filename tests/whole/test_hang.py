"""A worker that hangs is found by what it does not do, and one that works is left alone. Through HTTP, with real processes."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from supervisor.host_status import HostState
from supervisor.settings import ModelRef, SupervisorSettings
from supervisor.watch_bounds import WatchBounds
from tests.conftest import on_stand_in
from tests.whole.conftest import Server, Start, events_of

MakeModel = Callable[..., ModelRef]
# A tenth of production's; what is computed counts as work at any size.
SHORT = WatchBounds(interval_s=0.05, stopped_s=0.4, request_stall_s=0.6, load_stall_s=0.6, kernel_wait_s=6.0)


def hasty(settings: SupervisorSettings) -> SupervisorSettings:
    return replace(on_stand_in(settings), watch=SHORT)


async def ask(server: Server, script: dict[str, Any], **fields: Any) -> tuple[int, str]:
    body = {"model": "stand-in", "messages": [{"role": "user", "content": "@stand-in " + json.dumps(script)}]}

    async with server.post("/v1/chat/completions", body | {"max_tokens": 500} | fields) as answer:
        return answer.status, await answer.text()


async def until(server: Server, state: HostState) -> int:
    async with asyncio.timeout(10):
        while (status := server.services.host.status()).state is not state:
            await asyncio.sleep(0.005)

    assert status.worker_pid is not None
    return status.worker_pid


async def test_a_worker_that_was_stopped_is_told_within_four_seconds(
    start_server: Start, make_model: MakeModel
) -> None:
    """F07, with the bounds of production."""
    make_model(text=["a"] * 500, delay_s=0.02)
    server = await start_server()
    body = {"model": "stand-in", "messages": [{"role": "user", "content": "x"}], "stream": True, "max_tokens": 500}

    async with server.post("/v1/chat/completions", body) as answer:
        await answer.content.readline()
        os.kill(await until(server, HostState.BUSY), signal.SIGSTOP)
        began = time.monotonic()
        *_, error, end = events_of((await answer.text()).lstrip("\n"))

    assert time.monotonic() - began < 4.0
    assert (error["error"]["code"], end) == ("engine_unresponsive", "[DONE]")
    assert (await ask(server, {"text": ["ok"], "delay_s": 0}))[0] == 200


async def test_a_worker_that_was_stopped_for_a_moment_goes_on(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["a"] * 50, delay_s=0.02)
    server = await start_server()
    asking = asyncio.create_task(ask(server, {}))
    worker = await until(server, HostState.BUSY)
    os.kill(worker, signal.SIGSTOP)
    await asyncio.sleep(1.5)
    os.kill(worker, signal.SIGCONT)

    assert (await asking)[0] == 200


@pytest.mark.parametrize("phase", ["started", "prefill", "token:2"])
@pytest.mark.parametrize("action", ["gil", "sleep"])
async def test_a_deadlock_is_told_and_those_who_wait_are_served(
    start_server: Start, make_model: MakeModel, action: str, phase: str
) -> None:
    """F08."""
    make_model(text=["ok"])
    server = await start_server(hasty)
    script = {"text": ["a"] * 3, "prefill": 1, "at": {phase: action}}
    asking = asyncio.create_task(ask(server, script))
    await until(server, HostState.BUSY)
    waiting = asyncio.create_task(ask(server, {}))
    status, text = await asyncio.wait_for(asking, 5)

    assert status == 500
    assert json.loads(text)["error"]["code"] == "engine_unresponsive"
    assert "no sign of work" in text
    assert (await waiting)[0] == 200


@pytest.mark.parametrize("action", ["gil", "sleep", "stop"])
async def test_a_load_that_hangs_is_told(start_server: Start, make_model: MakeModel, action: str) -> None:
    make_model(at={"load": action})
    server = await start_server(hasty)
    status, text = await asyncio.wait_for(ask(server, {}), 10)

    assert status == 500
    assert json.loads(text)["error"]["code"] == "engine_unresponsive"


@pytest.mark.parametrize("phase", ["load", "started", "prefill", "token:2"])
async def test_a_long_call_that_computes_is_not_killed(start_server: Start, make_model: MakeModel, phase: str) -> None:
    """F10: silent for several times the bound, but at work."""
    burns = {phase: "burn:2"}
    make_model(text=["a", "b"], prefill=1, at=burns)
    server = await start_server(hasty)

    assert (await ask(server, {}))[0] == 200
    assert server.services.host.status().restarts == 0


async def test_a_worker_without_a_request_is_never_judged(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["ok"])
    server = await start_server(hasty)
    await ask(server, {})
    worker = await until(server, HostState.READY)
    os.kill(worker, signal.SIGSTOP)
    await asyncio.sleep(1.0)
    os.kill(worker, signal.SIGCONT)

    assert (await ask(server, {}))[0] == 200
    assert server.services.host.status().worker_pid == worker
