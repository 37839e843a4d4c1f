"""Two thousand clients at once, with the default queue: each is answered, soon, and whoever looks after the server meanwhile reaches it."""

from pathlib import Path

from benchmarks.crowd_client import crowd
from benchmarks.health_probe import health_probe
from benchmarks.result import Result, at_most
from benchmarks.server import DEMO_MODEL, running_server

_CLIENTS = 2000


def measure_crowd(models: Path) -> list[Result]:
    """Let them come, once."""
    with running_server(models) as server:
        before_mb = server.rss_mb()

        with health_probe(server.port) as health:
            told = crowd(server.port, _CLIENTS, DEMO_MODEL)

        kib_each = 1024 * (server.peak_rss_mb() - before_mb) / _CLIENTS

    statuses = told["statuses"]
    unanswered = _CLIENTS - statuses.get("200", 0) - statuses.get("503", 0)
    return [
        at_most("crowd_unanswered", unanswered, "clients", 0, clients=_CLIENTS, **told),
        at_most("crowd_refusal_p99", told["refusal_p99_s"], "s", 1.5),
        at_most("crowd_health_p99", 1000 * health["p99_s"], "ms", 300, **health),
        at_most("crowd_memory_each", kib_each, "KiB", 20),
    ]
