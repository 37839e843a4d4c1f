"""`python -m benchmarks chaos`: a server under load whose workers are killed at random; one JSON line, exit status 1 when it is bad.

The stand-in lies among the tests and needs what they need.
"""

import argparse
import asyncio
import contextlib
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.chaos.explain import Rules
from benchmarks.chaos.havoc import Havoc
from benchmarks.chaos.load import Asks, AsksEngine, AsksStandIns, Clients
from benchmarks.chaos.report import Report, Run, Samples
from benchmarks.chaos.target import AS_SHIPPED, ENDLESS, MODELS, STAND_IN, Ended, Target, target

_SAMPLE_S = 0.05
_WARM_UP_S = 1.0
# A process that waits for the next load is there by then, each time.
_REST_S = 2.0
# Connections of the clients, of the killer and of the one who unloads, and of each that was left a moment ago; a worker's own.
_MORE_CONNECTIONS = 24


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind of worker is treated. bound_s: longest wait for an answer, after which it is lost.

    deaths_to_refuse: least deaths after which a model may be refused; None where the server is told never to.
    """

    program: tuple[str, ...]
    asks: Asks
    kill_every_s: float
    unload_every_s: float
    bound_s: float
    deaths_to_refuse: int | None


_KINDS = {
    "stand-in": Kind(STAND_IN, AsksStandIns(MODELS), 0.8, 3.0, 60.0, None),
    "engine": Kind(ENDLESS, AsksEngine(MODELS), 2.0, 6.0, 90.0, None),
}
# As users have it: with back-offs, and refusals after three loads or five answers that ended a worker.
_AS_SHIPPED = Kind(AS_SHIPPED, AsksEngine(MODELS), 6.0, 12.0, 150.0, 3)


def main(arguments: Sequence[str]) -> int:
    """Run as the arguments say; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks chaos", description=__doc__)
    parser.add_argument("--minutes", type=_positive, default=1.0)
    parser.add_argument("--seed", type=int, default=None, help="what happens, as far as timing allows; else a new one")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--max-queue", type=int, default=8)
    parser.add_argument("--parallel", type=int, default=3, help="requests that the first model gets at the same time")
    parser.add_argument("--worker", choices=[*_KINDS], default="stand-in")
    parser.add_argument(
        "--as-shipped", action="store_true", help="with the engine: back-offs and refusals as users have"
    )
    parser.add_argument("--kill-every", type=_positive, default=None, help="seconds between two signals, on average")
    parser.add_argument("--keep", type=Path, default=None, help="an empty folder in which log and events stay")
    options = parser.parse_args(arguments)

    if options.as_shipped and options.worker != "engine":
        parser.error("--as-shipped needs --worker engine")

    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    # So that nothing is left behind by one who is ended from outside.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    # A thousand workers that are ended by SIGSEGV would fill a disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))

    with contextlib.ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-", dir="/tmp")))
        report = Report(_run(folder, seed, options))

    print(report.line(), flush=True)
    return 0 if report.is_good else 1


def _positive(text: str) -> float:
    value = float(text)

    if not 0 < value < float("inf"):
        raise ValueError(text)

    return value


def _run(folder: Path, seed: int, options: argparse.Namespace) -> Run:
    kind = _AS_SHIPPED if options.as_shipped else _KINDS[options.worker]
    begun_at = time.monotonic()
    samples = Samples()
    variables = {"PRISM_MAX_QUEUE": str(options.max_queue), "PRISM_PARALLEL": str(options.parallel)}

    with target(folder, kind.program, variables) as server:
        clients = Clients(server.port, kind.asks, options.clients, seed, kind.bound_s)
        kill_every_s = options.kill_every or kind.kill_every_s
        havoc = Havoc(server.pid, server.port, seed, kill_every_s, kind.unload_every_s)
        asyncio.run(_load(server, clients, havoc, samples, 60 * options.minutes))
        ended = server.end()
        events = server.events()

    return Run(
        seed=seed,
        worker=options.worker,
        seconds=time.monotonic() - begun_at,
        seen=clients.seen,
        kills=havoc.kills,
        unloads=havoc.unloads,
        health_s=havoc.health_s,
        samples=samples,
        events=events,
        faults=[*havoc.faults, *_faults_of_the_end(ended)],
        rules=Rules(options.max_queue, kind.deaths_to_refuse),
        most_connections=options.clients + _MORE_CONNECTIONS,
    )


async def _load(server: Target, clients: Clients, havoc: Havoc, samples: Samples, seconds: float) -> None:
    """Warm up, rest, let everything happen for so long, and rest again."""
    await clients.run(time.monotonic() + _WARM_UP_S)
    await _rest(server, havoc, samples)
    until = time.monotonic() + seconds
    sampling = asyncio.create_task(_sample(server, samples))

    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(clients.run(until))
            tasks.create_task(havoc.kill_until(until))
            tasks.create_task(havoc.unload_until(until))
    finally:
        sampling.cancel()
        await asyncio.wait({sampling})

    await _rest(server, havoc, samples)


async def _rest(server: Target, havoc: Havoc, samples: Samples) -> None:
    await havoc.unload()
    await asyncio.sleep(_REST_S)

    # A server that has ended by itself is found by its end.
    with contextlib.suppress(OSError):
        samples.rest_descriptors.append(server.descriptors())


async def _sample(server: Target, samples: Samples) -> None:
    while server.is_running:
        samples.workers = max(samples.workers, len(server.workers()))
        samples.descriptors.append(server.descriptors())
        samples.rss_mb.append(server.rss_mb())
        await asyncio.sleep(_SAMPLE_S)


def _faults_of_the_end(ended: Ended) -> list[str]:
    faults = [f"left behind: {what}" for what in ended.left]

    if ended.status != 0:
        faults.append(f"the server ended with {'nothing' if ended.status is None else ended.status}")

    if "Traceback" in ended.words:
        faults.append("a traceback in the log: " + ended.words[ended.words.index("Traceback") :][:1500])

    return faults
