"""Many damaged requests against one running server, over some connections at once, and what came of them.

Used by the tests of this folder and by `python -m tests.fuzz`. Blocks until all are answered.
"""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.judge import changes_the_server, code_of, complaint_about
from tests.fuzz.mutator import damaged
from tests.fuzz.odd_requests import Attack, odd_request, right_request
from tests.fuzz.valid_bodies import BODIES
from tests.raw_http import Reply, Wire, send

_SHARE_OF_ODD_REQUESTS = 0.1
_MOST_COMPLAINTS = 20


@dataclass(slots=True)
class Tally:
    """What came of a campaign. statuses: how often each status and code came. complaints: the first of them, with what was sent."""

    bodies: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    streams: int = 0
    statuses: Counter[tuple[int, str]] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    worker_before: tuple[int, int] = (0, 0)
    worker_after: tuple[int, int] = (0, 0)

    @property
    def server_faults(self) -> int:
        """How many answers had a status of 500 and above that no body asks for."""
        return sum(
            count for (status, code), count in self.statuses.items() if status >= 500 and code != "backend_unavailable"
        )

    def lines(self) -> list[str]:
        """Return the figures for people."""
        table = [f"  {status} {code:28} {count:7}" for (status, code), count in sorted(self.statuses.items())]
        return [
            f"{self.bodies} bodies in {self.seconds:.1f} s, {self.streams} of them streamed; slowest answer {self.slowest_s * 1000:.0f} ms",
            *table,
            f"5xx that nothing in a body asks for: {self.server_faults}; complaints: {len(self.complaints)}",
            f"worker (pid, restarts) before {self.worker_before}, after {self.worker_after}",
            *self.complaints,
        ]


def worker_of(base_url: str) -> tuple[int, int]:
    """Return the process id of the resident worker, and how many ended by themselves."""
    worker = send(base_url, "GET", "/health").json["worker"]
    return worker["pid"], worker["restarts"]


def attacks(seed: int, count: int, *, with_odd_requests: bool = True) -> list[Attack]:
    """Return damaged requests that leave the worker where it is. The same seed gives the same ones."""
    random = Random(seed)
    made: list[Attack] = []

    while len(made) < count:
        path, body = random.choice(BODIES)
        content = damaged(body, random)
        is_odd = with_odd_requests and random.random() < _SHARE_OF_ODD_REQUESTS
        attack = odd_request(path, content, random) if is_odd else right_request(path, content)

        if not changes_the_server(attack):
            made.append(attack)

    return made


def run_campaign(base_url: str, seed: int, count: int, *, connections: int = 4) -> Tally:
    """Send `count` damaged requests."""
    tally = Tally(worker_before=worker_of(base_url))
    lock = threading.Lock()
    begun_at = time.monotonic()
    shares = [count // connections + (number < count % connections) for number in range(connections)]

    with ThreadPoolExecutor(connections) as executor:
        senders = [_Sender(base_url, tally, lock) for _ in shares]
        seeds = range(seed * connections, (seed + 1) * connections)
        # What a sender could not make is raised here.
        list(executor.map(_Sender.run, senders, seeds, shares))

    tally.seconds = time.monotonic() - begun_at
    tally.worker_after = worker_of(base_url)
    return tally


class _Sender:
    """One connection, and another one after each that the server closed."""

    def __init__(self, base_url: str, tally: Tally, lock: threading.Lock) -> None:
        self._base_url = base_url
        self._tally = tally
        self._lock = lock
        self._wire: Wire | None = None

    def run(self, seed: int, count: int) -> None:
        try:
            # In parts, so that what is sent is not all in memory.
            for part in range(0, count, 50):
                for attack in attacks(seed * 100_003 + part, min(50, count - part)):
                    self._send(attack)
        finally:
            self._close()

    def _send(self, attack: Attack) -> None:
        begun_at = time.monotonic()

        try:
            reply = self._answer(attack)
        except (OSError, AssertionError, ValueError, IndexError) as error:
            self._close()
            self._note(attack, None, f"no answer: {type(error).__name__}: {error}", 0.0)
            return

        self._note(attack, reply, complaint_about(attack, reply), time.monotonic() - begun_at)

        # What follows the answer to an odd request may be the answer to its rest.
        if not attack.is_framed_right or reply.headers.get("connection") == "close":
            self._close()

    def _answer(self, attack: Attack) -> Reply:
        if self._wire is None or not attack.is_framed_right:
            self._close()
            self._wire = Wire(self._base_url)

        self._wire.send(attack.data)
        return self._wire.reply()

    def _note(self, attack: Attack, reply: Reply | None, complaint: str | None, seconds: float) -> None:
        with self._lock:
            tally = self._tally
            tally.bodies += 1
            tally.slowest_s = max(tally.slowest_s, seconds)

            if reply is not None:
                tally.statuses[reply.status, code_of(reply)] += 1
                tally.streams += reply.headers.get("content-type", "").startswith("text/event-stream")

            if complaint is not None and len(tally.complaints) < _MOST_COMPLAINTS:
                answer = b"" if reply is None else reply.body[:300]
                tally.complaints.append(f"{complaint}\n  sent {attack.data[:600]!r}\n  got {answer!r}")

    def _close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None
