"""How fast the server starts, gives memory back, and comes back after a kill."""

import os
import signal
import threading
import time
from pathlib import Path

from benchmarks.bare_engine import bare_engine
from benchmarks.result import Result, at_least, at_most, median, rounded
from benchmarks.server import DEMO_MODEL, Server, running_server

_ROUNDS = 5
# A process that waits for the next load is made a second after the last one.
_UNTIL_SPARE_S = 3.0


def measure_life(models: Path) -> list[Result]:
    """Start, unload and kill a few times."""
    return [_start_up(models), *_unload_and_recovery(models), *_swap(models)]


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


def _swap(models: Path) -> list[Result]:
    """A model comes into an empty server, with a process that waits for it and without, and into a bare engine; all take turns."""
    bare_s, spare_s, none_s, spare_mb = list[float](), list[float](), list[float](), list[float]()

    with (
        running_server(models, "--spare-worker", "on") as ready,
        running_server(models, "--spare-worker", "off") as plain,
    ):
        for server in (ready, plain):
            server.stream("Hi", 1)

        for _ in range(_ROUNDS):
            time.sleep(_UNTIL_SPARE_S)
            spare_mb.append(_memory_of_spare_mb(ready))
            spare_s.append(_swap_s(ready))
            # Its next process starts meanwhile, and must not slow the others down.
            time.sleep(_UNTIL_SPARE_S)
            none_s.append(_swap_s(plain))

            with bare_engine(models / DEMO_MODEL) as engine:
                bare_s.append(engine.load_s)

    shown = {"swap_s": rounded(spare_s), "without_spare_s": rounded(none_s), "bare_load_s": rounded(bare_s)}
    return [
        at_most("swap_over_bare_load", median(spare_s) - median(bare_s), "s", 0.3, **shown),
        at_least("spare_worker_saves", 1 - median(spare_s) / median(none_s), "of a swap", 0.2, **shown),
        at_most("spare_worker_memory", median(spare_mb), "MiB", 60, all_mb=rounded(spare_mb, 1)),
    ]


def _swap_s(server: Server) -> float:
    """From a request to its first token, by a server without a model."""
    server.call("POST", "/v1/unload")
    return server.stream("Hi", 1).ttft_s


def _memory_of_spare_mb(server: Server) -> float:
    """Private memory of the process that waits."""
    front = server.process.pid
    children = map(int, Path(f"/proc/{front}/task/{front}/children").read_text().split())
    (spare,) = set(children) - {server.worker_pid()}
    lines = Path(f"/proc/{spare}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


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
