"""A server as users start it, for the benchmarks: its process, its figures from /proc, and a client that costs little.

The client is a socket and a scan for line ends: on two cores a heavier one would measure itself.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEMO_MODEL = "smollm2-135m"
_NANOSECONDS = 1e9


@dataclass(slots=True)
class Streamed:
    """One streamed answer. Times are of the monotonic clock, at the arrival of each event that holds text."""

    sent_at: float
    times: list[float] = field(default_factory=list)
    text: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    @property
    def ttft_s(self) -> float:
        """From sending the request to the first text."""
        return self.times[0] - self.sent_at

    @property
    def tokens_per_s(self) -> float:
        """Tokens after the first over the time from the first to the last text."""
        return float(self.usage["completion_tokens"] - 1) / (self.times[-1] - self.times[0])

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt that were not computed again."""
        return int(self.usage["prompt_tokens_details"]["cached_tokens"])


class Server:
    """`prism serve` as a process of its own. variables: of its environment, beside ours without Prism's."""

    def __init__(self, models: Path, *flags: str, variables: Mapping[str, str] | None = None) -> None:
        self.started_at = time.monotonic()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PRISM_")}
        environment |= {"PRISM_MODEL_DIRS": str(models), **(variables or {})}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "prism", "serve", "--port", "0", "--log-level", "warning", *flags],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.process.stdout.readline())
        assert found is not None, "the server did not start"
        self.port = int(found.group(1))

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the decoded answer of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body))
            return json.loads(connection.getresponse().read())

    def stream(self, content: str, max_tokens: int, model: str = DEMO_MODEL, **fields: object) -> Streamed:
        """Return one greedy streamed chat of one message. fields: more of the body."""
        return self.stream_chat([{"role": "user", "content": content}], max_tokens, model, **fields)

    def stream_chat(
        self, messages: list[dict[str, str]], max_tokens: int, model: str = DEMO_MODEL, **fields: object
    ) -> Streamed:
        """Return one greedy streamed chat. fields: more of the body."""
        body = {
            "model": model,
            "messages": messages,
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **fields,
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

        with contextlib.closing(connection):
            streamed = Streamed(time.monotonic())
            connection.request("POST", "/v1/chat/completions", json.dumps(body))
            response = connection.getresponse()
            assert response.status == 200, response.read()
            lines = []

            while line := response.readline():
                lines.append((time.monotonic(), line))

        _read_events(lines, streamed)
        return streamed

    def worker_pid(self) -> int:
        """Process id of the resident worker."""
        return int(self.call("GET", "/health")["worker"]["pid"])

    def cpu_s(self) -> float:
        """CPU time of all threads of the front so far, without the worker's."""
        return cpu_of(self.process.pid)

    def rss_mb(self) -> float:
        """Resident memory of the front, in MiB."""
        return self._memory_mb("VmRSS")

    def peak_rss_mb(self) -> float:
        """The most memory that the front ever had, in MiB."""
        return self._memory_mb("VmHWM")

    def _memory_mb(self, name: str) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"{name}:\s+(\d+)", status)
        assert found is not None
        return int(found.group(1)) / 1024

    def stop(self) -> None:
        """End the server as a service manager would."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.wait(30)


def cpu_of(pid: int) -> float:
    """Return the CPU time, in seconds, of all threads of a process so far."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / _NANOSECONDS


def _read_events(lines: list[tuple[float, bytes]], streamed: Streamed) -> None:
    """Decode after the stream is over, so that decoding does not take part in it."""
    for at, line in lines:
        if not line.startswith(b"data: {"):
            continue

        event = json.loads(line[6:])

        if "error" in event:
            streamed.errors.append(event["error"]["code"])
            continue

        streamed.usage = event.get("usage") or streamed.usage
        text = "".join(choice["delta"].get("content") or "" for choice in event["choices"])

        if text:
            streamed.times.append(at)
            streamed.text += text


@contextlib.contextmanager
def running_server(models: Path, *flags: str, model: str = DEMO_MODEL) -> Iterator[Server]:
    """A server with a model loaded and warm."""
    server = Server(models, *flags)

    try:
        server.stream("Hi", 8, model)
        yield server
    finally:
        server.stop()
