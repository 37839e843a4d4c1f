"""A crowd: many clients that come at once, each with a connection of its own and one question.

As a program: `python -m benchmarks.crowd_client PORT COUNT MODEL`. Prints one JSON object that says how each of them fared.
"""

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

PATIENCE_S = 60.0
_MAX_TOKENS = 4


@dataclass(slots=True)
class _Fate:
    """How one client fared. status: 0 when no whole answer came. seconds: from the first try to connect to the end."""

    status: int = 0
    code: str | None = None
    has_retry_after: bool = False
    seconds: float = 0.0
    trouble: str | None = None


@dataclass(slots=True)
class _Received:
    """The bytes of an answer, and where its body begins once that is known."""

    content: bytearray = field(default_factory=bytearray)
    body_at: int = -1
    size: int = 0

    def is_whole(self) -> bool:
        if self.body_at < 0 and (end := self.content.find(b"\r\n\r\n")) >= 0:
            self.body_at = end + 4
            names = dict(line.lower().split(": ", 1) for line in self.head().split("\r\n")[1:])
            self.size = int(names["content-length"])

        return 0 <= self.body_at <= len(self.content) - self.size

    def head(self) -> str:
        return self.content[: self.body_at - 4].decode()


class _Client(asyncio.Protocol):
    """Sends one request and waits for its answer or for the end of the connection."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._received = _Received()
        self.ended: asyncio.Future[_Fate] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received.content += data

        if self._received.is_whole() and not self.ended.done():
            head = self._received.head()
            answer = json.loads(self._received.content[self._received.body_at :])
            code = answer["error"]["code"] if "error" in answer else None
            self.ended.set_result(_Fate(int(head.split(" ")[1]), code, "\r\nretry-after:" in head.lower()))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(_Fate(trouble="reset" if exc is not None else "closed without an answer"))


def request_of(model: str) -> bytes:
    """Return the bytes of one short question."""
    question = {"role": "user", "content": "Say a word."}
    body = json.dumps({"model": model, "messages": [question], "max_tokens": _MAX_TOKENS}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _ask(port: int, request: bytes) -> _Fate:
    begun_at = time.monotonic()
    transport: asyncio.Transport | None = None

    try:
        async with asyncio.timeout(PATIENCE_S):
            loop = asyncio.get_running_loop()
            transport, client = await loop.create_connection(lambda: _Client(request), "127.0.0.1", port)
            fate = await client.ended
    except TimeoutError:
        fate = _Fate(trouble="hung")
    except OSError as error:
        fate = _Fate(trouble=f"not connected: {error}")
    finally:
        if transport is not None:
            transport.close()

    fate.seconds = time.monotonic() - begun_at
    return fate


async def _crowd(port: int, count: int, model: str) -> dict[str, Any]:
    request = request_of(model)
    fates = await asyncio.gather(*(_ask(port, request) for _ in range(count)))
    refused = sorted(fate.seconds for fate in fates if fate.status == 503)
    return {
        "statuses": Counter(str(fate.status) for fate in fates if fate.status),
        "codes": Counter(fate.code for fate in fates if fate.code),
        "without_retry_after": sum(fate.status == 503 and not fate.has_retry_after for fate in fates),
        "troubles": Counter(fate.trouble for fate in fates if fate.trouble),
        "refusal_p99_s": round(quantile(refused, 0.99), 3),
        "longest_s": round(max(fate.seconds for fate in fates), 3),
    }


def quantile(ordered: list[float], share: float) -> float:
    """Return the value below which this share of the values lies; 0 where there are none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def crowd(port: int, count: int, model: str) -> dict[str, Any]:
    """Run the program in a process of its own and return what it says."""
    command = [sys.executable, "-m", "benchmarks.crowd_client", str(port), str(count), model]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=2 * PATIENCE_S)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(json.dumps(asyncio.run(_crowd(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))))
