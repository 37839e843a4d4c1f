"""A whole server in the test's own event loop, on real sockets, run by the functions that production uses; and as a process."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from prism.http.open_server import open_server
from prism.http.serve import Adjust, open_services
from prism.http.services import Services
from prism.settings import ServeSettings
from tests.conftest import on_stand_in

ROOT = Path(__file__).parents[2]


class Server:
    """A running server and a client for it."""

    def __init__(self, services: Services, base_url: str, session: aiohttp.ClientSession) -> None:
        self.services = services
        self.base_url = base_url
        self.session = session

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        data = body if isinstance(body, bytes | str) or body is None else json.dumps(body)
        return self.session.post(self.base_url + path, data=data, **options)

    def get(self, path: str, **options: Any) -> Any:
        return self.session.get(self.base_url + path, **options)

    async def chat(self, model: str = "stand-in", content: str = "hello", **fields: Any) -> Any:
        """Return the decoded answer of a chat that must succeed."""
        body = {"model": model, "messages": [{"role": "user", "content": content}], "temperature": 0, **fields}

        async with self.post("/v1/chat/completions", body) as response:
            answer = await response.json()
            assert response.status == 200, answer
            return answer

    async def stream(self, model: str = "stand-in", content: str = "hello", **fields: Any) -> list[Any]:
        """Return the decoded events of a streamed chat; its last one is the text "[DONE]"."""
        body = {"model": model, "messages": [{"role": "user", "content": content}], "temperature": 0, **fields}

        async with self.post("/v1/chat/completions", body | {"stream": True}) as response:
            assert response.status == 200, await response.text()
            return events_of(await response.text())


def events_of(text: str) -> list[Any]:
    """Decode a whole stream. Comments are left out."""
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    assert all(block.startswith("data: ") for block in blocks), text
    return [block[6:] if block == "data: [DONE]" else json.loads(block[6:]) for block in blocks]


def content_of(events: list[Any]) -> str:
    """Join the content of a stream."""
    chunks = [event for event in events if isinstance(event, dict) and event.get("choices")]
    return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)


Start = Callable[..., Awaitable[Server]]


@pytest.fixture
async def start_server(tmp_path: Path) -> AsyncIterator[Start]:
    """Return a function that starts a server on the stand-in with the models of `make_model`; flags as keyword arguments."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(adjust: Adjust | None = on_stand_in, **changes: Any) -> Server:
            models = tmp_path / "models"
            models.mkdir(exist_ok=True)
            base = ServeSettings(state_dir=tmp_path / "state", model_dirs=(models,), port=0)
            settings = replace(base, **changes)
            services = await stack.enter_async_context(open_services(settings, adjust))
            url = await stack.enter_async_context(open_server(services))
            session = await stack.enter_async_context(aiohttp.ClientSession())
            return Server(services, url, session)

        yield start
        await asyncio.sleep(0)


class ServerProcess:
    """A server as a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.base_url = ""
        self.lines: list[str] = []

    async def wait_listening(self) -> None:
        assert self.process.stdout is not None

        async for line in self.process.stdout:
            self.lines.append(line.decode().rstrip())

            if self.lines[-1].startswith("Prism is listening on "):
                self.base_url = self.lines[-1].split()[-1].removesuffix("/v1")
                return

        raise AssertionError(f"the server ended: {self.lines}")

    async def finish(self) -> tuple[int, str]:
        """Wait for the end; return the exit status and all that was written."""
        assert self.process.stdout is not None
        rest = await self.process.stdout.read()
        return await self.process.wait(), "\n".join([*self.lines, rest.decode()])


StartProcess = Callable[..., Awaitable[ServerProcess]]


@pytest.fixture
async def start_process(tmp_path: Path) -> AsyncIterator[StartProcess]:
    """Return a function that starts `prism serve` on the stand-in as a process; variables as keyword arguments."""
    started: list[ServerProcess] = []

    async def start(command: tuple[str, ...] | None = None, **variables: str) -> ServerProcess:
        models = tmp_path / "models"
        models.mkdir(exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PRISM_")}
        environment |= {
            "PRISM_MODEL_DIRS": str(models),
            "PRISM_STATE_DIR": str(tmp_path / "state"),
            "PRISM_PORT": "0",
            "PYTHONPATH": str(ROOT),
        }
        environment |= variables
        process = await asyncio.create_subprocess_exec(
            *(command or (sys.executable, "-m", "tests.serve_with_stand_in")),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
            cwd=ROOT,
        )
        server = ServerProcess(process)
        started.append(server)
        await server.wait_listening()
        return server

    yield start

    for server in started:
        if server.process.returncode is None:
            server.process.kill()

        await server.finish()
