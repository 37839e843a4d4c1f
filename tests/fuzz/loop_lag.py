"""How long a server answers nobody else while it has a costly body to deal with. Blocks until the body is answered."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.campaign import worker_of
from tests.raw_http import LOCALHOST, Reply, Wire, head, send_raw

_PING = head("GET", "/health", LOCALHOST)


@dataclass(frozen=True, slots=True)
class Lag:
    """silence_s: the longest that `/health` took meanwhile. loop_cpu_s: processor time of the thread that runs the event loop."""

    status: int
    silence_s: float
    loop_cpu_s: float
    seconds: float


def lag_of(base_url: str, path: str, body: bytes) -> Lag:
    """Post the body on one connection and ask for `/health` on another until it is answered."""
    replies: list[Reply] = []
    data = head("POST", path, f"Content-Length: {len(body)}").encode() + body
    sender = threading.Thread(target=lambda: replies.append(send_raw(base_url, data)))
    loop_thread = _loop_thread(base_url)
    longest = 0.0

    with Wire(base_url) as wire:
        _ping(wire)
        cpu_before = _cpu_s(loop_thread)
        begun_at = time.monotonic()
        sender.start()

        while sender.is_alive():
            longest = max(longest, _ping(wire))

        seconds = time.monotonic() - begun_at

    sender.join()
    return Lag(replies[0].status if replies else 0, longest, _cpu_s(loop_thread) - cpu_before, seconds)


def _ping(wire: Wire) -> float:
    begun_at = time.monotonic()
    wire.send(_PING)
    assert wire.reply().status == 200
    taken_s = time.monotonic() - begun_at
    # Without a pause the asking would cost the server more than the body does.
    time.sleep(0.01)
    return taken_s


def _loop_thread(base_url: str) -> Path:
    """The first thread of the server, found as the parent of its worker."""
    status = Path(f"/proc/{worker_of(base_url)[0]}/status").read_text()
    server = int(status.split("PPid:")[1].split()[0])
    return Path(f"/proc/{server}/task/{server}")


def _cpu_s(thread: Path) -> float:
    return int((thread / "schedstat").read_text().split()[0]) / 1e9
