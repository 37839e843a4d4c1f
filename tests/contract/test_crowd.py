"""More clients than can be served: each is told so, and who looks after the server still reaches it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from benchmarks.crowd_client import crowd
from benchmarks.health_probe import health_probe
from prism import descriptors
from prism.http import connection_bound
from prism.http.connection_bound import CROWDED_PLACES, LEAST, MOST_BY_ITSELF, OWN_DESCRIPTORS, most_connections
from supervisor.settings import ModelRef
from tests.contract.client import CHAT, body_of
from tests.contract.test_connections import posted
from tests.contract.waiting import until
from tests.raw_http import head
from tests.served import serving, write_model
from tests.whole.conftest import Server, Start

MakeModel = Callable[..., ModelRef]
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
PATIENCE_S = 10.0
ANSWER = b"}"


async def open_many(server: Server, count: int) -> list[Stream]:
    port = int(server.base_url.rpartition(":")[2])
    return [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]


@contextlib.asynccontextmanager
async def idle(server: Server, count: int) -> AsyncIterator[list[Stream]]:
    """Connections that have been accepted: each has had an answer, if it could have one."""
    opened = await open_many(server, count)

    for reader, writer in opened:
        writer.write(head("GET", "/health/ready").encode())
        await asyncio.wait_for(reader.readuntil(ANSWER), PATIENCE_S)

    yield opened

    for _, writer in opened:
        writer.close()


async def ask(server: Server, request: str) -> bytes:
    """Return all that comes on a connection of its own until it is closed."""
    ((reader, writer),) = await open_many(server, 1)
    writer.write(request.encode())

    try:
        async with asyncio.timeout(PATIENCE_S):
            return await reader.read()
    finally:
        writer.close()


async def test_connections_beyond_the_bound_are_told(start_server: Start, make_model: MakeModel) -> None:
    make_model()
    server = await start_server(max_connections=2)

    async with idle(server, 2):
        refused = await ask(server, posted(CHAT, body_of(CHAT, None)))
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 30\r\n" in refused
        assert b"\r\nConnection: close\r\n" in refused
        assert b"\r\nX-Request-Id: " in refused
        assert json.loads(refused.partition(b"\r\n\r\n")[2])["error"]["code"] == "server_busy"
        # It comes before anything of the request is looked at, so its body is not waited for.
        unfinished = head("POST", CHAT, "Content-Length: 1000") + "{"
        assert (await ask(server, unfinished)).startswith(b"HTTP/1.1 503 ")
        assert (await ask(server, head("GET", "/v1/models"))).startswith(b"HTTP/1.1 503 ")
        assert (await ask(server, head("GET", "/nothing"))).startswith(b"HTTP/1.1 404 ")


async def test_who_looks_after_a_crowded_server_reaches_it(start_server: Start) -> None:
    server = await start_server(max_connections=1)

    async with idle(server, 1):
        for path in ("/health", "/health/ready", "/openapi.json"):
            answer = await ask(server, head("GET", path))
            assert answer.startswith(b"HTTP/1.1 200 ")
            # The place is for the next one.
            assert b"\r\nConnection: close\r\n" in answer

        assert (await ask(server, posted("/v1/unload", {}))).startswith(b"HTTP/1.1 200 ")
        assert (await ask(server, posted("/v1/drain", {}))).startswith(b"HTTP/1.1 200 ")


async def test_a_place_that_is_free_again_is_an_ordinary_one(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["served"])
    server = await start_server(max_connections=1)

    question = posted(CHAT, body_of(CHAT, None), "Connection: close")

    async with idle(server, 1):
        assert (await ask(server, question)).startswith(b"HTTP/1.1 503 ")

    async with asyncio.timeout(PATIENCE_S):
        # Until it is seen that the other one has left.
        while not (await ask(server, question)).startswith(b"HTTP/1.1 200 "):
            pass

    for _ in range(5):
        assert (await ask(server, question)).startswith(b"HTTP/1.1 200 ")


async def test_when_no_place_is_left_who_comes_waits_for_one(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection_bound, "CROWDED_PLACES", 2)
    server = await start_server(max_connections=1, header_timeout_s=0.0)

    async with idle(server, 1):
        crowded = await open_many(server, 2)
        waiting = asyncio.create_task(ask(server, head("GET", "/health/ready")))
        done, _ = await asyncio.wait([waiting], timeout=0.3)
        assert not done
        crowded[0][1].close()
        assert (await asyncio.wait_for(waiting, PATIENCE_S)).startswith(b"HTTP/1.1 200 ")
        crowded[1][1].close()

    assert sum("connections are open" in record.message for record in caplog.records) == 1


async def test_a_wish_for_more_connections_than_files_is_cut_and_told(
    start_server: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = await start_server(max_connections=10**9)
    assert (await ask(server, head("GET", "/health", "Connection: close"))).startswith(b"HTTP/1.1 200 ")
    most = most_connections(10**9, descriptors.descriptor_limit())
    assert f"at most {most} connections are served, not 1000000000" in caplog.text


@pytest.mark.parametrize(
    ("wanted", "limit", "most"),
    [
        (0, 1_048_576, MOST_BY_ITSELF),
        (0, 1024, 1024 - OWN_DESCRIPTORS - CROWDED_PLACES),
        (10, 1024, 10),
        (100_000, 1_048_576, 100_000),
        (100_000, 1024, 1024 - OWN_DESCRIPTORS - CROWDED_PLACES),
        (0, 64, LEAST),
        (3, 64, 3),
    ],
)
def test_the_bound_leaves_descriptors_for_other_uses(wanted: int, limit: int, most: int) -> None:
    assert most_connections(wanted, limit) == most


def test_a_crowd_is_answered_to_the_last_one(tmp_path: Path) -> None:
    """`python -m benchmarks crowd` does this with two thousand, and looks at the times."""
    write_model(tmp_path, "stand-in", {"text": ["a"] * 4, "delay_s": 0.01})

    with serving(tmp_path, preload="stand-in") as base_url:
        port = int(base_url.rpartition(":")[2])

        with health_probe(port) as health:
            told = crowd(port, 400, "stand-in")

    assert told["troubles"] == {}
    assert set(told["statuses"]) == {"200", "503"}
    assert sum(told["statuses"].values()) == 400
    assert told["statuses"]["200"] >= 9
    assert set(told["codes"]) == {"server_busy"}
    assert told["without_retry_after"] == 0
    assert health["count"] > 0
    assert health["longest_s"] < 5


async def test_requests_that_come_at_once_begin_in_order_of_arrival(start_server: Start, make_model: MakeModel) -> None:
    """They are let in a few at a time; those whose clients leave meanwhile take nobody's place."""
    make_model(text=["a"])
    server = await start_server(max_queue=0, queue_timeout_s=0.0)
    order: list[int] = []

    async def begin(number: int) -> None:
        await server.services.pace.begin()
        order.append(number)

    tasks = [asyncio.create_task(begin(number)) for number in range(100)]
    await asyncio.sleep(0)
    tasks[50].cancel()
    await until(lambda: all(task.done() for task in tasks))
    assert order == [number for number in range(100) if number != 50]
    assert (await server.chat())["choices"][0]["finish_reason"] == "stop"
