"""Waiting for a state of the server inside the test's own event loop."""

import asyncio
from collections.abc import Callable
from typing import Any

from supervisor.host_status import HostState
from tests.whole.conftest import Server

PATIENCE_S = 10.0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.002)


async def until_state(server: Server, state: HostState) -> None:
    await until(lambda: server.services.host.status().state is state)


async def until_waiting(server: Server, count: int) -> None:
    await until(lambda: server.services.host.status().waiting == count)


def begin(server: Server, path: str, body: Any) -> "asyncio.Task[tuple[int, Any]]":
    """Post in the background. The task's result is the status and the decoded answer, or the text of a stream."""
    return asyncio.create_task(_post(server, path, body))


async def _post(server: Server, path: str, body: Any) -> tuple[int, Any]:
    async with server.post(path, body) as response:
        is_json = response.content_type == "application/json"
        return response.status, await (response.json() if is_json else response.text())


async def leave(task: "asyncio.Task[Any]") -> None:
    """Close the connection of a request in the background."""
    task.cancel()
    await asyncio.wait([task])
