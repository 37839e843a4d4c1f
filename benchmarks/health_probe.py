"""Asks `/health` again and again, each time on a new connection, as an operator's monitor would, while something else goes on.

As a program: `python -m benchmarks.health_probe PORT`. Asks until its input ends, then prints how long the answers took.
"""

import contextlib
import json
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.crowd_client import PATIENCE_S, quantile

_PAUSE_S = 0.02
_REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def _ask(port: int) -> float:
    begun_at = time.monotonic()

    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(_REQUEST)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))

    assert answer.startswith(b"HTTP/1.1 200 "), answer[:200]
    return time.monotonic() - begun_at


def main(port: int) -> None:
    """Ask until the input ends."""
    seconds = []

    while not select.select([sys.stdin], [], [], _PAUSE_S)[0]:
        seconds.append(_ask(port))

    ordered = sorted(seconds)
    figures = {"count": len(ordered), "p50_s": quantile(ordered, 0.5), "p99_s": quantile(ordered, 0.99)}
    print(json.dumps({**figures, "longest_s": ordered[-1]}))


@contextlib.contextmanager
def health_probe(port: int) -> Iterator[dict[str, Any]]:
    """Probe while the block runs. The figures are in what it gives once the block has ended."""
    figures: dict[str, Any] = {}
    command = [sys.executable, "-m", "benchmarks.health_probe", str(port)]

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield figures
        told, _ = process.communicate(timeout=2 * PATIENCE_S)
        figures.update({name: round(value, 4) for name, value in json.loads(told).items()})


if __name__ == "__main__":
    main(int(sys.argv[1]))
