"""What HTTP, the queue and the channel cost on top of the bare engine: tokens per second, time to first token, CPU of the front."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.bare_engine import BareEngine, bare_engine
from benchmarks.bare_relay import BareRelay, bare_relay
from benchmarks.result import Result, at_least, at_most, median, rounded
from benchmarks.server import DEMO_MODEL, Server, running_server
from prism.chat.prompt import ChatTemplate, PromptRequest, TemplateMode
from prism.export.genai_config import DynamicBatching
from prism.export.tiny_model import write_tiny_model

_STORY = "Write a long story about a river and the people who live beside it."
_QUESTION = "What is the capital of France?"
_ROUNDS = 7
_TOKENS = 160
_QUESTIONS = 25
_STREAMED = 24
_CROWD = 8


def rendered(folder: Path, content: str) -> str:
    """Return the prompt that the server makes of one user message, so that both sides compute the same."""
    template = ChatTemplate.load(folder, DEMO_MODEL, TemplateMode.AUTO)
    return "".join(template.render(PromptRequest(messages=[{"role": "user", "content": content}])).pieces)


def measure_speed(models: Path) -> list[Result]:
    """Take turns with the bare engine, so that both sides see the same machine."""
    folder = models / DEMO_MODEL

    with (
        bare_relay() as relay,
        bare_engine(folder) as engine,
        bare_engine(folder, relay.write_fd) as relayed,
        running_server(models) as server,
    ):
        return [
            _throughput(engine, server, rendered(folder, _STORY)),
            _first_token(engine, server, rendered(folder, _QUESTION)),
            _front_cpu_at_pace(server, relay, relayed, rendered(folder, _STORY)),
            at_most("front_rss", server.rss_mb(), "MiB", 60),
            _front_cpu_at_full_speed(1),
            _front_cpu_at_full_speed(_CROWD),
        ]


def _throughput(engine: BareEngine, server: Server, prompt: str) -> Result:
    bare, through_http = [], []

    for _ in range(_ROUNDS):
        bare.append(engine.generate(prompt, _TOKENS)["tokens_per_s"])
        through_http.append(server.stream(_STORY, _TOKENS).tokens_per_s)

    ratio = median([ours / theirs for ours, theirs in zip(through_http, bare, strict=True)])
    return at_least(
        "tokens_per_s_over_bare", ratio, "ratio", 0.97, http=rounded(through_http, 1), bare=rounded(bare, 1)
    )


def _first_token(engine: BareEngine, server: Server, prompt: str) -> Result:
    bare, through_http = [], []

    for _ in range(_QUESTIONS):
        bare.append(engine.generate(prompt, 2)["ttft_s"])
        through_http.append(server.stream(_QUESTION, 2).ttft_s)

    added_ms = 1000 * (median(through_http) - median(bare))
    details = {"http_ms": round(1000 * median(through_http), 1), "bare_ms": round(1000 * median(bare), 1)}
    return at_most("added_time_to_first_token", added_ms, "ms", 5, **details)


def _front_cpu_at_pace(server: Server, relay: BareRelay, relayed: BareEngine, prompt: str) -> Result:
    """At the pace of a real model every token finds a sleeping process and cold caches, so the bare relay costs much too."""
    front_us, relay_us = [], []

    for _ in range(_ROUNDS):
        before = relay.cpu_s()
        tokens = relayed.generate(prompt, _TOKENS)["tokens"]
        relay_us.append(1e6 * (relay.cpu_s() - before) / tokens)
        before = server.cpu_s()
        tokens = server.stream(_STORY, _TOKENS).usage["completion_tokens"]
        front_us.append(1e6 * (server.cpu_s() - before) / tokens)

    ratio = median([ours / theirs for ours, theirs in zip(front_us, relay_us, strict=True)])
    return at_most(
        "front_cpu_over_bare_relay", ratio, "ratio", 3, front_us=rounded(front_us, 0), relay_us=rounded(relay_us, 0)
    )


def _front_cpu_at_full_speed(streams: int) -> Result:
    """CPU of the front for each token of a model so small that the front is what limits. Requests are counted in."""
    with tempfile.TemporaryDirectory() as folder:
        write_tiny_model(Path(folder) / "tiny", batching=None if streams == 1 else DynamicBatching())

        with (
            running_server(Path(folder), "--parallel", str(streams), model="tiny") as server,
            ThreadPoolExecutor(streams) as clients,
        ):
            before = server.cpu_s()
            answers = list(clients.map(lambda number: server.stream(f"Write {number}", 1900, "tiny"), range(_STREAMED)))
            seconds = server.cpu_s() - before

    tokens = sum(answer.usage["completion_tokens"] for answer in answers)
    events = sum(len(answer.times) for answer in answers)
    rate = streams * median([answer.tokens_per_s for answer in answers])
    name = "front_cpu_per_token" if streams == 1 else f"front_cpu_per_token_of_{streams}_streams"
    return at_most(name, 1e6 * seconds / tokens, "us", 60, tokens=tokens, events=events, tokens_per_s=round(rate))
