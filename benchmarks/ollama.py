"""What passing a request on to Ollama costs, over asking the daemon directly: for a request, for a token, and in CPU of the front.

The daemon is one that costs next to nothing (`benchmarks.stamping_daemon`): a real one's work would hide what is measured. Each token holds
the time at which it was sent, on the clock that all processes of a machine share.
"""

import contextlib
import http.client
import json
import tempfile
import time
from pathlib import Path

from benchmarks.result import Result, at_most, median
from benchmarks.server import Server, Streamed
from benchmarks.stamping_daemon import stamping_daemon

_REQUESTS = 200
_ROUNDS = 5
_PACED_TOKENS = 200
_FAST_TOKENS = 5000


def measure_ollama(_: Path) -> list[Result]:
    """Take turns with the daemon itself. No model of the server's own is needed."""
    with tempfile.TemporaryDirectory() as folder, stamping_daemon() as port:
        server = Server(Path(folder), variables={"OLLAMA_HOST": f"127.0.0.1:{port}"})

        try:
            server.stream("Hi", 8, "ollama:paced")
            return [_request(server, port), _token(server, port), _cpu(server)]
        finally:
            server.stop()


def _request(server: Server, port: int) -> Result:
    direct, passed = [], []

    for _ in range(_REQUESTS):
        direct.append(1000 * _direct(port, "fast", 1).ttft_s)
        passed.append(1000 * server.stream("Hi", 1, "ollama:fast").ttft_s)

    details = {"passed_ms": round(median(passed), 2), "direct_ms": round(median(direct), 2), "requests": _REQUESTS}
    return at_most("ollama_added_per_request", median(passed) - median(direct), "ms", 5, **details)


def _token(server: Server, port: int) -> Result:
    direct, passed = [], []

    for _ in range(_ROUNDS):
        direct += _delays_ms(_direct(port, "paced", _PACED_TOKENS))
        passed += _delays_ms(server.stream("Hi", _PACED_TOKENS, "ollama:paced"))

    details = {"passed_ms": round(median(passed), 3), "direct_ms": round(median(direct), 3), "tokens": len(passed)}
    return at_most("ollama_added_per_token", median(passed) - median(direct), "ms", 1, **details)


def _cpu(server: Server) -> Result:
    """At full speed, requests included."""
    before = server.cpu_s()
    streams = [server.stream("Hi", _FAST_TOKENS, "ollama:fast") for _ in range(_ROUNDS)]
    seconds = server.cpu_s() - before
    tokens = sum(len(stream.times) for stream in streams)
    rate = median([stream.tokens_per_s for stream in streams])
    return at_most("ollama_cpu_per_token", 1e6 * seconds / tokens, "us", 60, tokens=tokens, tokens_per_s=round(rate))


def _delays_ms(streamed: Streamed) -> list[float]:
    """From the daemon's sending of each token to its arrival at the client."""
    stamps = [float(stamp) for stamp in streamed.text.split()]
    return [1000 * (arrived - sent) for arrived, sent in zip(streamed.times, stamps, strict=True)]


def _direct(port: int, model: str, tokens: int) -> Streamed:
    """Ask the daemon itself, with the same client as `Server.stream`."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "options": {"num_predict": tokens}}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    with contextlib.closing(connection):
        streamed = Streamed(time.monotonic())
        connection.request("POST", "/api/chat", json.dumps(body))
        response = connection.getresponse()
        lines = []

        while line := response.readline():
            lines.append((time.monotonic(), line))

    for at, line in lines:
        if text := json.loads(line)["message"]["content"]:
            streamed.times.append(at)
            streamed.text += text

    return streamed
