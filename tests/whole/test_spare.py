"""`prism serve` as shipped, with real workers: the process that waits for the next load becomes the worker, and ends with its server."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import aiohttp
import psutil
import pytest

from prism.export.tiny_model import write_tiny_model
from tests.whole.conftest import ServerProcess, StartProcess

pytestmark = pytest.mark.engine

COMMAND = (sys.executable, "-m", "prism", "serve")


@pytest.fixture
async def server(start_process: StartProcess, tmp_path: Path) -> ServerProcess:
    """A server with a loaded model."""
    for name in ("one", "two"):
        write_tiny_model(tmp_path / "models" / name)

    server = await start_process(COMMAND, PRISM_SPARE_WORKER="on", PRISM_DEVICE="cpu", PRISM_RESOURCE_CHECK="off")
    await _ask(server, "one")
    return server


async def _ask(server: ServerProcess, model: str) -> int:
    """Ask once; return the process id of the worker that answered."""
    body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}

    async with aiohttp.ClientSession(server.base_url) as session:
        async with session.post("/v1/chat/completions", json=body) as response:
            assert response.status == 200, await response.text()

        async with session.get("/health") as response:
            pid = (await response.json())["worker"]["pid"]
            assert isinstance(pid, int)
            return pid


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not condition():
            await asyncio.sleep(0.005)


def _workers(server: ServerProcess) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children()


async def _family(server: ServerProcess) -> list[psutil.Process]:
    """Wait until a process waits beside the worker; return both."""
    await _until(lambda: len(_workers(server)) == 2)
    return _workers(server)


def _all_gone(family: list[psutil.Process]) -> bool:
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in family)


async def test_the_process_that_waits_serves_the_next_model(server: ServerProcess) -> None:
    family = await _family(server)
    first = await _ask(server, "one")
    (spare,) = (process for process in family if process.pid != first)

    assert await _ask(server, "two") == spare.pid
    assert not psutil.pid_exists(first)


async def test_a_killed_server_takes_it_along(server: ServerProcess) -> None:
    family = await _family(server)
    os.kill(server.process.pid, signal.SIGKILL)

    async with asyncio.timeout(1):
        await _until(lambda: _all_gone(family))


async def test_a_server_that_is_asked_to_end_ends_it(server: ServerProcess) -> None:
    family = await _family(server)
    server.process.send_signal(signal.SIGTERM)
    status, log = await server.finish()

    assert status == 0
    assert "Traceback" not in log
    assert _all_gone(family)
