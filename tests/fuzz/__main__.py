"""`python -m tests.fuzz`: many damaged bodies against a server of its own, and the figures. Ends with 1 when something was found.

With `--schemas N` it asks for answers under random schemas instead, each of which must fit. With `--bombs` it sends the bodies that are
made to cost time, and tells for how long each kept others from being answered.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.bombs import BOMBS
from tests.fuzz.campaign import run_campaign
from tests.fuzz.fuzzed_servers import engine_server, stand_in_server
from tests.fuzz.loop_lag import lag_of
from tests.fuzz.schema_campaign import run_schemas
from tests.fuzz.valid_bodies import MODEL

_SERVERS = {"stand-in": stand_in_server, "engine": engine_server}


def main() -> int:
    """Run one campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Send damaged bodies to a server.")
    parser.add_argument("--bodies", type=int, default=20_000, help="how many are sent (20000)")
    parser.add_argument("--seed", type=int, default=1, help="another one damages in other ways (1)")
    parser.add_argument("--worker", choices=tuple(_SERVERS), default="stand-in", help="who answers (stand-in)")
    parser.add_argument("--bombs", action="store_true", help="send bodies of 10 MiB that are made to cost time")
    parser.add_argument(
        "--schemas", type=int, default=0, help="ask under so many random schemas, the first of the number --seed"
    )
    arguments = parser.parse_args()
    # Only an engine keeps to a schema.
    worker = "engine" if arguments.schemas else arguments.worker

    with tempfile.TemporaryDirectory(prefix="prism-fuzz-") as name, _SERVERS[worker](Path(name)) as base_url:
        if arguments.schemas:
            return _schemas(base_url, arguments.seed, arguments.schemas)

        return _bombs(base_url) if arguments.bombs else _campaign(base_url, arguments.seed, arguments.bodies)


def _campaign(base_url: str, seed: int, bodies: int) -> int:
    tally = run_campaign(base_url, seed, bodies)
    sys.stdout.write("\n".join(tally.lines()) + "\n")
    is_clean = not tally.complaints and not tally.server_faults and tally.worker_before == tally.worker_after
    return 0 if is_clean else 1


def _schemas(base_url: str, first: int, count: int) -> int:
    tally = run_schemas(base_url, MODEL, first, count)
    sys.stdout.write("\n".join(tally.lines()) + "\n")
    return 1 if tally.complaints else 0


def _bombs(base_url: str) -> int:
    sys.stdout.write("body                           status   no answer for   loop's processor time   answered after\n")

    for name, (path, make) in BOMBS.items():
        body = make()
        lag = min((lag_of(base_url, path, body) for _ in range(3)), key=lambda lag: lag.silence_s)
        sys.stdout.write(
            f"{name:30} {lag.status:6} {lag.silence_s * 1000:12.0f} ms {lag.loop_cpu_s * 1000:20.0f} ms {lag.seconds:14.2f} s\n"
        )

    return 0


if __name__ == "__main__":
    sys.exit(main())
