"""Clients that send their headers slowly or never: what they hold is given back in time, and nobody else waits for them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

import pytest

from prism.http import protocol
from supervisor.host_status import HostState
from supervisor.settings import ModelRef
from tests.contract.client import CHAT, body_of
from tests.contract.test_connections import posted
from tests.contract.waiting import until_state
from tests.raw_http import head
from tests.whole.conftest import Server, Start

MakeModel = Callable[..., ModelRef]
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
PATIENCE_S = 10.0


def port_of(server: Server) -> int:
    return int(server.base_url.rpartition(":")[2])


@contextlib.asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Stream]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))

    try:
        yield reader, writer
    finally:
        writer.close()


@pytest.mark.parametrize("begun", ["G", "GET /health HTTP/1.1\r\n", head("GET", "/health")[:-2]])
async def test_headers_that_do_not_come_are_a_408(start_server: Start, begun: str) -> None:
    server = await start_server(header_timeout_s=0.2)

    async with connected(server) as (reader, writer), asyncio.timeout(PATIENCE_S):
        writer.write(begun.encode())
        answer = await reader.read()

    assert answer.startswith(b"HTTP/1.0 408 ")
    assert b'"code":"request_timeout"' in answer
    assert b"Server: prism\r\n" in answer


async def test_headers_that_trickle_are_no_more_than_late(start_server: Start) -> None:
    """Each byte is progress, and none of it buys time."""
    server = await start_server(header_timeout_s=0.5)

    async with connected(server) as (reader, writer), asyncio.timeout(PATIENCE_S):
        answer = asyncio.create_task(reader.read())
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        begun_at = time.monotonic()

        while not answer.done():
            writer.write(b"a")
            await asyncio.sleep(0.02)

    assert (await answer).startswith(b"HTTP/1.0 408 ")
    assert time.monotonic() - begun_at < 2


async def test_who_sends_nothing_is_sent_nothing(start_server: Start) -> None:
    server = await start_server(header_timeout_s=0.1)

    async with connected(server) as (reader, writer), asyncio.timeout(PATIENCE_S):
        writer.write(b"\r\n")
        assert await reader.read() == b""


async def test_a_second_request_has_as_much_time_as_the_first(start_server: Start) -> None:
    server = await start_server(header_timeout_s=0.3)

    async with connected(server) as (reader, writer), asyncio.timeout(PATIENCE_S):
        writer.write(head("GET", "/health/ready").encode())
        await reader.readuntil(b"}")
        # Idle for longer than headers may take: that is what connections are kept for.
        await asyncio.sleep(0.5)
        writer.write(head("GET", "/health/ready").encode())
        await reader.readuntil(b"}")
        writer.write(b"GET /heal")
        assert (await reader.read()).startswith(b"HTTP/1.0 408 ")


async def test_headers_sent_ahead_wait_for_the_answer_before_them(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["one"], prefill=10, prefill_s=0.05)
    server = await start_server(header_timeout_s=0.1)

    async with connected(server) as (reader, writer), asyncio.timeout(PATIENCE_S):
        writer.write(posted(CHAT, body_of(CHAT, None)).encode())
        await until_state(server, HostState.BUSY)
        writer.write(b"GET /heal")
        answers = await reader.read()

    assert answers.startswith(b"HTTP/1.1 200 ")
    assert answers.count(b"HTTP/1.") == 2
    assert b"HTTP/1.0 408 " in answers


@pytest.mark.parametrize("late", ["\r\n", "rest of a body"])
async def test_what_is_no_header_starts_no_clock(start_server: Start, late: str) -> None:
    """An answer that nobody asked for would be taken for that to the next request."""
    server = await start_server(header_timeout_s=0.2)
    request = head("POST", "/nothing", f"Content-Length: {len(late)}") if late.strip() else head("GET", "/nothing")

    async with connected(server) as (reader, writer), asyncio.timeout(PATIENCE_S):
        writer.write(request.encode())
        await reader.readuntil(b"}}")
        writer.write(late.encode())
        await asyncio.sleep(0.4)
        writer.write(head("GET", "/health/ready").encode())
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")


async def test_headers_may_be_given_any_time(start_server: Start) -> None:
    server = await start_server(header_timeout_s=0.0)

    async with connected(server) as (reader, writer), asyncio.timeout(PATIENCE_S):
        writer.write(head("GET", "/health/ready")[:-2].encode())
        await asyncio.sleep(0.2)
        writer.write(b"\r\n")
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("whole_at_once", [False, True])
async def test_headers_without_an_end_are_refused_before_they_fill_the_memory(
    start_server: Start, whole_at_once: bool
) -> None:
    """Each one is within its bound, and so is their number."""
    server = await start_server(header_timeout_s=0.0)
    lines = [f"X-{number}: {'a' * 8000}\r\n".encode() for number in range(100)]

    async with connected(server) as (reader, writer), asyncio.timeout(PATIENCE_S):
        writer.write(b"GET /health HTTP/1.1\r\n")

        with contextlib.suppress(ConnectionError):
            for line in [b"".join(lines)] if whole_at_once else lines:
                writer.write(line)
                await writer.drain()

        answer = await reader.read(1000)

    assert answer.startswith(b"HTTP/1.0 400 ")
    assert b"headers" in answer


async def test_hundreds_of_slow_headers_keep_nobody_out(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["honest"])
    server = await start_server(header_timeout_s=1.0)
    slow = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port_of(server)) for _ in range(400)))
    begun_at = time.monotonic()

    for _, writer in slow:
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nX-Slow: ")

    assert (await server.chat())["choices"][0]["message"]["content"] == "honest"
    assert time.monotonic() - begun_at < 5

    async with asyncio.timeout(PATIENCE_S):
        answers = await asyncio.gather(*(reader.read() for reader, _ in slow))

    assert {answer.split(b" ")[1] for answer in answers} == {b"408"}

    for _, writer in slow:
        writer.close()


async def test_a_connection_beyond_the_bound_has_little_time(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "CROWDED_HEADER_S", 0.2)
    server = await start_server(max_connections=1)

    async with connected(server), connected(server) as (reader, _), asyncio.timeout(PATIENCE_S):
        assert await reader.read() == b""
