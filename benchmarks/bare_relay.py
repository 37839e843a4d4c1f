"""The least that a front in Python can cost: wakes for each token of an engine and writes as many bytes to a client over TCP. Nothing else.

As a program: `python -m benchmarks.bare_relay FD PORT`. Reads the pipe FD, one byte for each token, and writes one event for each to
127.0.0.1:PORT. Its CPU time is what a wake-up and a send cost on this machine, beside an engine that computes.
"""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.server import cpu_of

_EVENT = b"data: " + b"x" * 240 + b"\n\n"


async def _relay(read_fd: int, port: int) -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
    ended = asyncio.Event()

    def pass_on() -> None:
        tokens = os.read(read_fd, 4096)

        if tokens:
            transport.write(_EVENT * len(tokens))
        else:
            loop.remove_reader(read_fd)
            ended.set()

    loop.add_reader(read_fd, pass_on)
    await ended.wait()
    transport.close()


@dataclass(frozen=True, slots=True)
class BareRelay:
    """The program above. write_fd: a byte for each token goes here."""

    write_fd: int
    pid: int

    def cpu_s(self) -> float:
        """CPU time of the relay so far."""
        return cpu_of(self.pid)


@contextlib.contextmanager
def bare_relay() -> Iterator[BareRelay]:
    """A relay with a client that reads what it sends."""
    read_fd, write_fd = os.pipe()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [sys.executable, "-m", "benchmarks.bare_relay", str(read_fd), str(listener.getsockname()[1])]
        process = subprocess.Popen(command, pass_fds=(read_fd,))
        os.close(read_fd)
        client, _ = listener.accept()

    reader = threading.Thread(target=_read_all, args=(client,))
    reader.start()

    try:
        yield BareRelay(write_fd, process.pid)
    finally:
        os.close(write_fd)
        process.wait(30)
        reader.join()


def _read_all(client: socket.socket) -> None:
    with client:
        while client.recv(65536):
            pass


if __name__ == "__main__":
    asyncio.run(_relay(int(sys.argv[1]), int(sys.argv[2])))
