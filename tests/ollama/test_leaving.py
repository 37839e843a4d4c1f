"""Who leaves ends the daemon's work; the server's own end does too; and nobody waits behind anybody."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.ollama.conftest import QUICK, StartBeside
from tests.ollama.fake_daemon import FakeDaemon, hang, last, line, wait_for_go
from tests.whole.conftest import Server, ServerProcess, StartProcess, content_of, events_of

CHAT = "/v1/chat/completions"
# What the issue promises.
CLOSED_WITHIN_S = 1.0


def body_of(path: str, *, stream: bool = True) -> dict[str, Any]:
    asked = {"messages": [{"role": "user", "content": "x"}]} if path == CHAT else {"prompt": "x"}
    return {"model": "ollama:m", "stream": stream, **asked}


async def begin(server: Server, daemon: FakeDaemon, path: str = CHAT, *, stream: bool = True) -> "asyncio.Task[Any]":
    """Ask, and return once the daemon works on it."""

    async def ask() -> tuple[int, str]:
        async with server.post(path, body_of(path, stream=stream)) as response:
            return response.status, await response.text()

    task = asyncio.create_task(ask())
    await asyncio.wait_for(daemon.begun.wait(), 5)
    return task


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
@pytest.mark.parametrize("steps", [(hang,), (line("x"), hang)], ids=["before the first line", "in the middle"])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_ends_the_daemons_work(
    start_beside: StartBeside, daemon: FakeDaemon, steps: Any, path: str, stream: bool
) -> None:
    """Case 48, D-30."""
    daemon.chats["m"] = steps
    asking = await begin(await start_beside(), daemon, path, stream=stream)
    asking.cancel()
    left_at = time.monotonic()
    await asyncio.wait_for(daemon.left.wait(), 5)
    assert time.monotonic() - left_at < CLOSED_WITHIN_S
    assert daemon.open_chats == 0

    with contextlib.suppress(asyncio.CancelledError):
        await asking


async def test_a_stop_string_ends_the_daemons_work(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    daemon.chats["m"] = (line("a END b"), hang)
    server = await start_beside()
    assert content_of(await server.stream("ollama:m", stop="END")) == "a "
    await asyncio.wait_for(daemon.left.wait(), CLOSED_WITHIN_S)


async def test_requests_do_not_wait_for_each_other_nor_in_the_queue(
    start_beside: StartBeside, daemon: FakeDaemon, make_model: Any
) -> None:
    make_model()
    daemon.chats["m"] = (line("x"), wait_for_go, last())
    server = await start_beside(max_queue=1)
    asking = [await begin(server, daemon) for _ in range(5)]
    assert (await server.chat())["choices"][0]["finish_reason"] == "stop"

    async with server.get("/health") as response:
        assert (await response.json())["queue"]["waiting"] == 0

    daemon.go.set()
    assert [status for status, _ in await asyncio.gather(*asking)] == [200] * 5


async def test_a_drain_lets_what_runs_come_to_its_end_and_refuses_what_is_new(
    start_beside: StartBeside, daemon: FakeDaemon
) -> None:
    daemon.chats["m"] = (line("x"), wait_for_go, line("y"), last())
    server = await start_beside()
    asking = await begin(server, daemon)
    draining = server.services.drain()

    for path in (CHAT, "/v1/completions"):
        async with server.post(path, body_of(path)) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (503, "server_draining")

    async with server.post("/v1/embeddings", {"model": "ollama:m", "input": "x"}) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (503, "server_draining")

    assert not draining.done()
    daemon.go.set()
    status, text = await asking
    assert (status, content_of(events_of(text))) == (200, "xy")
    assert await asyncio.wait_for(draining, 5) is None


async def test_an_unload_does_not_touch_it(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    daemon.chats["m"] = (line("x"), wait_for_go, line("y"), last())
    server = await start_beside()
    asking = await begin(server, daemon)

    async with server.post("/v1/unload") as response:
        assert await response.json() == {"unloaded": False, "model": None}

    daemon.go.set()
    status, text = await asking
    assert (status, content_of(events_of(text))) == (200, "xy")


@pytest.mark.parametrize("steps", [(hang,), (line("x"), hang)], ids=["before the first line", "in the middle"])
async def test_past_its_bound_a_drain_cuts_with_an_error(
    start_beside: StartBeside, daemon: FakeDaemon, steps: Any
) -> None:
    daemon.chats["m"] = steps
    server = await start_beside()
    asking = await begin(server, daemon)
    await asyncio.wait_for(server.services.drain(0.05), 5)
    status, text = await asking
    await asyncio.wait_for(daemon.left.wait(), CLOSED_WITHIN_S)

    if len(steps) == 1:
        assert status == 503
        assert '"server_draining"' in text
    else:
        events = events_of(text)
        assert (events[-2]["error"]["code"], events[-1]) == ("server_draining", "[DONE]")


async def test_a_server_that_gives_itself_up_cuts_with_an_error(
    start_beside: StartBeside, daemon: FakeDaemon, caplog: pytest.LogCaptureFixture
) -> None:
    daemon.chats["m"] = (line("x"), hang)
    server = await start_beside()
    asking = await begin(server, daemon)
    server.services.fail(RuntimeError("a fault in our own supervision"))
    _, text = await asyncio.wait_for(asking, 5)
    assert events_of(text)[-2]["error"]["code"] == "server_draining"
    await asyncio.wait_for(daemon.left.wait(), CLOSED_WITHIN_S)
    assert "a fault in our own supervision" in caplog.text


async def test_a_client_that_does_not_read_holds_no_drain_up(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    daemon.chats["m"] = (*(line("x" * 60_000) for _ in range(400)), last())
    server = await start_beside()

    async with server.post(CHAT, body_of(CHAT)) as response:
        assert response.status == 200
        await asyncio.wait_for(server.services.drain(0.1), 5)


@contextlib.asynccontextmanager
async def asked(process: ServerProcess) -> AsyncIterator[asyncio.StreamReader]:
    """Ask a server that is a process for a stream; give what its answer is read from."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(process.base_url.rpartition(":")[2]))
    body = json.dumps(body_of(CHAT)).encode()
    head = f"POST {CHAT} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)

    try:
        yield reader
    finally:
        writer.close()

        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_a_server_that_is_told_to_end_closes_what_it_asked(
    start_process: StartProcess, daemon: FakeDaemon
) -> None:
    """The first signal waits for the answer, which never comes; the second one cuts it, and the client is told."""
    daemon.chats["m"] = (line("x"), hang)
    process = await start_process(OLLAMA_HOST=daemon.url)

    async with asked(process) as reader:
        await asyncio.wait_for(daemon.begun.wait(), 10)
        process.process.terminate()
        await _wait_draining(process)
        assert not daemon.left.is_set()
        process.process.terminate()
        await asyncio.wait_for(daemon.left.wait(), 5)
        answer = (await asyncio.wait_for(reader.read(), 5)).decode()

    assert '"server_draining"' in answer
    assert answer.endswith("data: [DONE]\n\n")
    assert (await process.finish())[0] == 0


async def _wait_draining(process: ServerProcess) -> None:
    async with aiohttp.ClientSession() as session, asyncio.timeout(5):
        while True:
            async with session.get(f"{process.base_url}/health") as response:
                if (await response.json())["state"] == "draining":
                    return


async def test_a_server_that_is_killed_leaves_nothing_open(start_process: StartProcess, daemon: FakeDaemon) -> None:
    daemon.chats["m"] = (line("x"), hang)
    process = await start_process(OLLAMA_HOST=daemon.url)

    async with asked(process):
        await asyncio.wait_for(daemon.begun.wait(), 10)
        process.process.kill()
        await asyncio.wait_for(daemon.left.wait(), CLOSED_WITHIN_S)


async def test_a_daemon_that_hangs_is_given_up(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    daemon.chats["m"] = (line("x"), hang)
    server = await start_beside(bounds=QUICK)
    events = await server.stream("ollama:m")
    assert "0.4 s" in events[-2]["error"]["message"]
    await asyncio.wait_for(daemon.left.wait(), CLOSED_WITHIN_S)
