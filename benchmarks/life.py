"""How fast the server starts, gives memory back, and comes back after a kill."""

import os
import signal
import threading
import time
from pathlib import Path

from benchmarks.bare_engine import bare_engine
from benchmarks.result import Result, at_most, median, rounded
from benchmarks.server import DEMO_MODEL, Server, running_server

_ROUNDS = 5


def measure_life(models: Path) -> list[Result]:
    """Start, unload and kill a few times."""
    return [_start_up(models), *_unload_and_recovery(models)]


def _start_up(models: Path) -> Result:
    seconds = []

    for _ in range(_ROUNDS):
        server = Server(models)
        server.call("GET", "/health")
        seconds.append(time.monotonic() - server.started_at)
        server.stop()

    return at_most("start_to_health", median(seconds), "s", 0.5, all_s=rounded(seconds))


def _unload_and_recovery(models: Path) -> list[Result]:
    with bare_engine(models / DEMO_MODEL) as engine:
        bare_load_s = engine.load_s

    unload_ms, swap_s, recovery_s, noticed_ms = [], [], [], []

    with running_server(models) as server:
        for _ in range(_ROUNDS):
            begun_at = time.monotonic()
            server.call("POST", "/v1/unload")
            unload_ms.append(1000 * (time.monotonic() - begun_at))
            begun_at = time.monotonic()
            server.stream("Hi", 1)
            swap_s.append(time.monotonic() - begun_at)

    for _ in range(_ROUNDS):
        # A server of its own for each kill: one whose workers keep ending waits before it starts the next.
        with running_server(models) as server:
            killed = _kill_in_stream(server)
            noticed_ms.append(1000 * killed.noticed_s)
            recovery_s.append(killed.next_answer_s)

    return [
        at_most("unload", median(unload_ms), "ms", 300, all_ms=rounded(unload_ms, 1)),
        at_most("kill_to_error", median(noticed_ms), "ms", 50, all_ms=rounded(noticed_ms, 1)),
        at_most(
            "kill_to_next_answer",
            median(recovery_s),
            "s",
            2.5,
            all_s=rounded(recovery_s),
            cold_answer_s=rounded(swap_s),
            bare_load_s=round(bare_load_s, 3),
        ),
    ]


class _Killed:
    """What a stream saw whose worker was killed."""

    noticed_s = 0.0
    next_answer_s = 0.0


def _kill_in_stream(server: Server) -> _Killed:
    killed = _Killed()
    worker = server.worker_pid()
    killed_at = 0.0

    def kill() -> None:
        nonlocal killed_at
        killed_at = time.monotonic()
        os.kill(worker, signal.SIGKILL)

    timer = threading.Timer(0.5, kill)
    timer.start()
    streamed = server.stream("Write a very long story about the sea.", 2000)
    timer.join()
    assert streamed.errors == ["engine_crashed"], streamed.errors
    killed.noticed_s = time.monotonic() - killed_at
    server.stream("Hi", 1)
    killed.next_answer_s = time.monotonic() - killed_at
    return killed
