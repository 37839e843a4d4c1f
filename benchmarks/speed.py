"""What HTTP, the queue and the channel cost on top of the bare engine: tokens per second, time to first token, CPU of the front."""

from pathlib import Path

from benchmarks.bare_engine import BareEngine, bare_engine
from benchmarks.result import Result, at_least, at_most, median, rounded
from benchmarks.server import DEMO_MODEL, Server, running_server
from prism.chat.prompt import ChatTemplate, PromptRequest, TemplateMode

_STORY = "Write a long story about a river and the people who live beside it."
_QUESTION = "What is the capital of France?"
_ROUNDS = 7
_TOKENS = 160
_QUESTIONS = 25


def rendered(folder: Path, content: str) -> str:
    """Return the prompt that the server makes of one user message, so that both sides compute the same."""
    template = ChatTemplate.load(folder, DEMO_MODEL, TemplateMode.AUTO)
    return "".join(template.render(PromptRequest(messages=[{"role": "user", "content": content}])).pieces)


def measure_speed(models: Path) -> list[Result]:
    """Take turns with the bare engine, so that both sides see the same machine."""
    folder = models / DEMO_MODEL

    with bare_engine(folder) as engine, running_server(models) as server:
        return [
            _throughput(engine, server, rendered(folder, _STORY)),
            _first_token(engine, server, rendered(folder, _QUESTION)),
            _front_cpu(server),
            at_most("front_rss", server.rss_mb(), "MiB", 60),
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


def _front_cpu(server: Server) -> Result:
    """CPU of the front for the tokens of streams, the cost of their requests taken off."""
    before = server.cpu_s()
    short = [server.stream(_STORY, 2).usage["completion_tokens"] for _ in range(8)]
    between = server.cpu_s()
    long = [server.stream(_STORY, 2 * _TOKENS).usage["completion_tokens"] for _ in range(8)]
    after = server.cpu_s()
    tokens = sum(long) - sum(short)
    per_token_us = 1e6 * ((after - between) - (between - before)) / tokens
    per_request_ms = 1e3 * (between - before) / len(short)
    return at_most(
        "front_cpu_per_token", per_token_us, "us", 60, tokens=tokens, per_request_ms=round(per_request_ms, 2)
    )
