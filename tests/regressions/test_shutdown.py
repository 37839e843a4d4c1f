"""Ctrl+C and SIGTERM: what runs is finished, what waits is refused, nothing new begins, and nobody sees a traceback."""

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from supervisor.settings import ModelRef
from tests.whole.conftest import StartProcess

MakeModel = Callable[..., ModelRef]


async def health(session: aiohttp.ClientSession) -> Any:
    async with session.get("/health") as response:
        return await response.json()


async def until(session: aiohttp.ClientSession, state: str, waiting: int = 0) -> None:
    async with asyncio.timeout(10):
        while (now := await health(session))["state"] != state or now["queue"]["waiting"] != waiting:
            await asyncio.sleep(0.005)


async def chat(session: aiohttp.ClientSession, model: str) -> tuple[int, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": "x"}], "max_tokens": 1000}

    async with session.post("/v1/chat/completions", json=body) as response:
        return response.status, await response.json()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_finishes_the_answer_and_begins_no_other_load(
    start_process: StartProcess, make_model: MakeModel, number: signal.Signals
) -> None:
    """B-35, D-32, D-33: whole answers and preflights ended in tracebacks, and the queue began loads that nobody would see."""
    make_model(text=["a"] * 40, delay_s=0.02)
    make_model("other", text=["b"])
    server = await start_process(PRISM_CORS_ORIGINS="http://page.example")

    async with aiohttp.ClientSession(server.base_url) as session:
        running = asyncio.create_task(chat(session, "stand-in"))
        await until(session, "busy")
        waiting = asyncio.create_task(chat(session, "other"))
        await until(session, "busy", waiting=1)
        server.process.send_signal(number)
        status, refused = await waiting
        assert (status, refused["error"]["code"]) == (503, "server_draining")
        asked = {"Origin": "http://page.example", "Access-Control-Request-Method": "POST"}

        async with session.options("/v1/chat/completions", headers=asked) as preflight:
            assert preflight.status == 204

        status, answer = await running
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "a" * 40)
        exit_status, output = await asyncio.wait_for(server.finish(), 5)

    assert exit_status == 0
    assert "Traceback" not in output
    assert "started for 'stand-in'" in output
    assert "started for 'other'" not in output


async def test_a_signal_with_nothing_to_do_ends_the_server_at_once(start_process: StartProcess) -> None:
    """B-35 and D-33."""
    server = await start_process()

    # A connection that is kept by its client does not hold the end up.
    async with aiohttp.ClientSession(server.base_url) as session:
        assert (await health(session))["state"] == "idle"
        server.process.send_signal(signal.SIGINT)
        exit_status, output = await asyncio.wait_for(server.finish(), 5)

    assert exit_status == 0
    assert "Traceback" not in output
