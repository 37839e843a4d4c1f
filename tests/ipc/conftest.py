"""A front's end in the test's loop, and peers of all kinds at the other end."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import zmq

from ipc.codec import encode_message
from ipc.front_end import ChannelContext, FrontEnd
from ipc.messages import FromWorker, Hello

SECRET = bytes(range(32))
HELLO = Hello(secret=SECRET, generation=1, pid=1, version="test")
ROOT = Path(__file__).parents[2]


async def until(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.001)


class Front:
    """A FrontEnd that notes what it is told."""

    def __init__(self, context: ChannelContext, path: Path) -> None:
        self.path = path
        self.messages: list[FromWorker] = []
        self.faults: list[Exception] = []
        self.disconnected = 0
        self.end = FrontEnd(context, path, SECRET, 1, self.messages.append, self.faults.append, self._note_disconnected)

    def _note_disconnected(self) -> None:
        self.disconnected += 1

    async def received(self, count: int) -> None:
        await until(lambda: len(self.messages) >= count)


class Peer:
    """Whoever connects: a bare socket."""

    def __init__(self, socket: zmq.Socket[bytes], endpoint: str) -> None:
        self.socket = socket
        self.socket.setsockopt(zmq.LINGER, 1000)
        self.socket.setsockopt(zmq.RECONNECT_IVL, -1)
        self.socket.setsockopt(zmq.SNDTIMEO, 5000)
        self.socket.setsockopt(zmq.RCVTIMEO, 5000)
        self.socket.connect(endpoint)

    def send(self, message: FromWorker | bytes) -> None:
        self.socket.send(message if isinstance(message, bytes) else encode_message(message))


class Peers:
    """The peers of a test, closed at its end."""

    def __init__(self) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._peers: list[Peer] = []

    def connect(self, front: Front) -> Peer:
        self._peers.append(Peer(self._context.socket(zmq.DEALER), front.end.endpoint))
        return self._peers[-1]

    def close(self) -> None:
        for peer in self._peers:
            peer.socket.close(linger=0)

        self._context.term()


@pytest.fixture
def context() -> Iterator[ChannelContext]:
    context = ChannelContext()
    yield context
    context.close()


@pytest.fixture
def peers() -> Iterator[Peers]:
    """Peers with a context of their own, as if they were other processes."""
    peers = Peers()
    yield peers
    peers.close()


@pytest.fixture
async def front(context: ChannelContext, runtime_dir: Path) -> AsyncIterator[Front]:
    front = Front(context, runtime_dir / "w1")
    yield front
    front.end.close()


class PeerProcesses:
    """Makes real processes, one after another."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout

    async def start(self, front: Front, action: str, count: int) -> int:
        """Return the id of the new process."""
        order = {"endpoint": front.end.endpoint, "secret": SECRET.hex(), "action": action, "count": count}
        self._stdin.write(json.dumps(order).encode() + b"\n")
        return int(await asyncio.wait_for(self._stdout.readline(), 10))

    async def ended(self) -> None:
        """Wait until the process that was started last has been reaped."""
        assert await asyncio.wait_for(self._stdout.readline(), 10) == b"ended\n"

    async def close(self) -> None:
        self._stdin.close()
        await self._process.wait()


@pytest.fixture
async def processes() -> AsyncIterator[PeerProcesses]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).parent / "peer_processes.py"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    processes = PeerProcesses(process)
    yield processes
    await processes.close()
    # The transport closes its pipes in the next turn of the loop.
    await asyncio.sleep(0)
