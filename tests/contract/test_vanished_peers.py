"""Clients whose machine is gone: they close nothing and answer nothing, so only the kernel can notice, and it has to be told to."""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prism.http.connection_bound import ConnectionBound, Place
from prism.http.listener import listen
from tests.served import ROOT, write_model
from tests.vanish_in_namespace import NOT_POSSIBLE, SEND_TIMEOUT_S

PATIENCE_S = 20.0


class Peer(asyncio.Protocol):
    """One connection, without any watch of its own over its client."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.made: asyncio.Future[asyncio.Transport] = loop.create_future()
        self.lost: asyncio.Future[BaseException | None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.made.set_result(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost.set_result(exc)


@contextlib.asynccontextmanager
async def accepted(peer_timeout_s: float) -> AsyncIterator[tuple[Peer, socket.socket]]:
    """A connection as the server accepts it, and the client's side of it, which takes few bytes."""
    peer = Peer()

    def connect(_: Place) -> Peer:
        return peer

    listener = await listen("127.0.0.1", 0, connect, ConnectionBound(10), peer_timeout_s)

    try:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", listener.port))
            transport = await peer.made
            yield peer, client
            transport.abort()
            await peer.lost
    finally:
        await listener.close()


async def test_the_kernel_is_told_how_long_a_peer_may_be_silent() -> None:
    async with accepted(30.0) as (peer, _):
        accepted_socket = peer.made.result().get_extra_info("socket")
        tcp = socket.IPPROTO_TCP
        assert accepted_socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert accepted_socket.getsockopt(tcp, socket.TCP_KEEPIDLE) == 15
        assert accepted_socket.getsockopt(tcp, socket.TCP_KEEPINTVL) == 5
        assert accepted_socket.getsockopt(tcp, socket.TCP_KEEPCNT) == 3
        assert accepted_socket.getsockopt(tcp, socket.TCP_USER_TIMEOUT) == 35_000


@pytest.mark.parametrize(("told", "understood_ms"), [(0.0, 0), (1e12, 2**31 - 1)])
async def test_any_time_can_be_told(told: float, understood_ms: int) -> None:
    async with accepted(told) as (peer, _):
        accepted_socket = peer.made.result().get_extra_info("socket")
        assert accepted_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == understood_ms


async def test_a_window_that_stays_closed_ends_the_connection() -> None:
    """Also without the guard of the sender, so what the kernel still holds when the server is done is given back."""
    async with accepted(1.0) as (peer, _):
        begun_at = time.monotonic()
        peer.made.result().write(b"x" * 1_000_000)
        lost = await asyncio.wait_for(peer.lost, PATIENCE_S)
        assert isinstance(lost, TimeoutError)
        assert 0.9 < time.monotonic() - begun_at < 10


@pytest.mark.parametrize("kind", ["stream", "silent"])
def test_a_client_whose_network_is_gone_frees_the_engine(tmp_path: Path, kind: str) -> None:
    write_model(tmp_path, "stand-in", {"text": ["a"] * 4000, "delay_s": 0.01})
    command = [sys.executable, "-m", "tests.vanish_in_namespace", str(tmp_path), kind]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=50)

    if done.returncode == NOT_POSSIBLE:
        pytest.skip("this system lets nobody make a network namespace")

    assert done.returncode == 0, done.stderr.decode()
    # Without the options the kernel would take a quarter of an hour, or two hours.
    assert 0.9 * SEND_TIMEOUT_S < float(done.stdout) < 8
