"""A program: a server and its client in a network of their own, whose only cable is then cut: packets are lost, and nobody closes.

`python -m tests.vanish_in_namespace FOLDER KIND` with the models of FOLDER/models; KIND: `stream` (the server sends to the client that
vanished) or `silent` (it only waits). Prints the seconds from the cut until the engine is free again. Exit status 77 where the system lets
nobody make a network.
"""

import asyncio
import ctypes
import fcntl
import os
import socket
import struct
import sys
import time
from pathlib import Path

from prism.http import socket_options
from prism.http.open_server import open_server
from prism.http.serve import open_services
from prism.http.services import Services
from prism.settings import ServeSettings
from supervisor.host_status import HostState
from tests.conftest import on_stand_in
from tests.contract.client import CHAT, body_of
from tests.contract.test_connections import posted

SEND_TIMEOUT_S = 1.0
NOT_POSSIBLE = 77
_PATIENCE_S = 20.0
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1


def main(folder: Path, kind: str) -> int:
    if ctypes.CDLL(None).unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return NOT_POSSIBLE

    try:
        set_loopback(is_up=True)
    except OSError:
        return NOT_POSSIBLE

    socket_options.KEEPALIVE_IDLE_S = 1
    socket_options.KEEPALIVE_INTERVAL_S = 1
    sys.stdout.write(f"{asyncio.run(_measure(folder, kind)):.2f}\n")
    return 0


def set_loopback(*, is_up: bool) -> None:
    """Plug the cable in, or cut it."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP if is_up else 0))


async def _measure(folder: Path, kind: str) -> float:
    settings = ServeSettings(
        state_dir=folder / "state", model_dirs=(folder / "models",), port=0, send_timeout_s=SEND_TIMEOUT_S
    )

    async with open_services(settings, on_stand_in) as services, open_server(services) as url:
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        body = body_of(CHAT, None, stream=kind == "stream", max_tokens=4000)
        writer.write(posted(CHAT, body).encode())
        await _until(services, HostState.BUSY)
        # So that the request has been acknowledged, and a stream flows.
        await asyncio.sleep(0.3)
        set_loopback(is_up=False)
        cut_at = time.monotonic()
        await _until(services, HostState.READY)
        seconds = time.monotonic() - cut_at
        set_loopback(is_up=True)
        writer.close()
        return seconds


async def _until(services: Services, state: HostState) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while services.host.status().state is not state:
            await asyncio.sleep(0.005)


if __name__ == "__main__":
    os.environ["HOME"] = sys.argv[1]
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
