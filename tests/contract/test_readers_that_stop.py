"""Clients that stop reading their answers, or read them slowly: the first are ended in time, the second never."""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from prism.http import socket_options
from prism.http.send_guard import SendGuard
from supervisor.host_status import HostState
from supervisor.settings import ModelRef
from tests.contract.client import CHAT, Client, body_of
from tests.contract.test_connections import posted
from tests.contract.test_slow_clients import port_of
from tests.contract.waiting import until_state
from tests.raw_http import Wire
from tests.served import serving, started_server, write_model
from tests.whole.conftest import Server, Start

MakeModel = Callable[..., ModelRef]
PATIENCE_S = 10.0
# More than a kernel buffers for one connection.
LARGE = {"text": ["x" * 1000] * 20_000}
TEXT = b"x" * 1000


@contextlib.asynccontextmanager
async def lazy_reader(server: Server, **fields: object) -> AsyncIterator[socket.socket]:
    """A connection on which a long answer was asked for. It takes few bytes before its owner reads."""
    with socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(lazy, ("127.0.0.1", port_of(server)))
        await loop.sock_sendall(lazy, posted(CHAT, body_of(CHAT, None, max_tokens=20_000, **fields)).encode())
        yield lazy


async def read_to_end(client: socket.socket) -> tuple[bytes, bool]:
    """Return what comes, and whether it ended with a reset."""
    received = bytearray()

    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                part = await asyncio.get_running_loop().sock_recv(client, 1 << 20)
            except ConnectionResetError:
                return bytes(received), True

            if not part:
                return bytes(received), False

            received += part


async def test_a_reader_that_stops_frees_the_engine(
    start_server: Start,
    make_model: MakeModel,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The kernel's own watch comes later, so what is seen here is ours.
    monkeypatch.setattr(socket_options, "USER_TIMEOUT_SHARE", 100)
    caplog.set_level(logging.INFO)
    make_model(**LARGE)
    server = await start_server(send_timeout_s=0.5)

    async with lazy_reader(server, stream=True) as lazy:
        await until_state(server, HostState.BUSY)
        begun_at = time.monotonic()
        answer = await asyncio.wait_for(server.chat(content='@stand-in {"text": ["next"]}'), PATIENCE_S)
        assert answer["choices"][0]["message"]["content"] == "next"
        assert 0.4 < time.monotonic() - begun_at < 8
        _, is_reset = await read_to_end(lazy)
        assert is_reset

    assert [r.message for r in caplog.records if "took nothing" in r.message] == [
        "a client took nothing for 0.5 s: its connection is ended"
    ]
    assert not any(record.exc_info for record in caplog.records)


async def test_a_reader_that_stops_in_a_whole_answer_holds_nothing_for_ever(
    start_server: Start, make_model: MakeModel
) -> None:
    """The engine is free before a byte of it is sent."""
    make_model(**LARGE)
    server = await start_server(send_timeout_s=0.5)

    async with lazy_reader(server) as lazy:
        await until_state(server, HostState.BUSY)
        answer = await asyncio.wait_for(server.chat(content='@stand-in {"text": ["next"]}'), PATIENCE_S)
        assert answer["choices"][0]["message"]["content"] == "next"
        await asyncio.sleep(1)
        received, is_reset = await read_to_end(lazy)
        assert is_reset
        assert len(received) < 20_000_000


async def test_a_slow_but_steady_reader_is_never_ended(start_server: Start, make_model: MakeModel) -> None:
    """It takes so little at a time that the kernel does not once ask for more while this is looked at."""
    make_model(**LARGE)
    server = await start_server(send_timeout_s=0.5)
    received = bytearray()

    async with lazy_reader(server, stream=True) as lazy:
        await until_state(server, HostState.BUSY)
        slow_until = time.monotonic() + 2

        while time.monotonic() < slow_until:
            received += await asyncio.get_running_loop().sock_recv(lazy, 1000)
            await asyncio.sleep(0.02)

        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)

        async with asyncio.timeout(PATIENCE_S):
            while not received.endswith(b"\r\n0\r\n\r\n"):
                received += await asyncio.get_running_loop().sock_recv(lazy, 1 << 20)

    assert b"data: [DONE]" in received[-100:]
    assert received.count(TEXT) > 19_000
    assert b'"finish_reason":"stop"' in received[-1000:]


async def test_readers_may_be_given_any_time(start_server: Start, make_model: MakeModel) -> None:
    make_model(**LARGE)
    server = await start_server(send_timeout_s=0.0)

    async with lazy_reader(server, stream=True):
        await until_state(server, HostState.BUSY)
        await asyncio.sleep(0.5)
        assert server.services.host.status().state is HostState.BUSY


async def test_pings_do_not_pile_up_for_a_reader_that_stops(
    start_server: Start, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_model(**LARGE)
    server = await start_server(sse_ping_s=0.02)
    has_stopped = asyncio.Event()
    monkeypatch.setattr(SendGuard, "begin", lambda _: has_stopped.set())

    async with lazy_reader(server, stream=True) as lazy:
        await asyncio.wait_for(has_stopped.wait(), PATIENCE_S)
        # Time for thirty of them.
        await asyncio.sleep(0.6)
        received = bytearray()

        async with asyncio.timeout(PATIENCE_S):
            while not received.endswith(b"\r\n0\r\n\r\n"):
                received += await asyncio.get_running_loop().sock_recv(lazy, 1 << 20)

    assert received.count(b": ping") < 5


def test_readers_that_stop_leave_no_memory_behind(tmp_path: Path) -> None:
    """The engine makes 20 MB for each in a second; none is read, and each is ended with all that waited for it."""
    write_model(tmp_path, "stand-in", LARGE)
    request = posted(CHAT, body_of(CHAT, None, max_tokens=20_000, stream=True))

    with serving(tmp_path, preload="stand-in", PRISM_SEND_TIMEOUT="0.3") as base_url:
        client = Client(base_url)
        pid = started_server("tests.serve_with_stand_in")
        before_mb = memory_mb(pid, "VmRSS")
        after_mb = []

        for _ in range(4):
            with Wire(base_url) as wire:
                wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                wire.send(request)
                # Served only when the engine is free again.
                assert client.answer(script={"text": ["next"]})["choices"][0]["message"]["content"] == "next"
                after_mb.append(memory_mb(pid, "VmRSS"))

        assert memory_mb(pid, "VmHWM") < before_mb + 120
        assert after_mb[-1] < after_mb[0] + 30


def memory_mb(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(f"{name}:")]
    return int(line.split()[1]) / 1024
