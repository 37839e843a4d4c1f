"""Several clients at once on the paged demo model: what they get in all, and how long a long prompt holds the others up."""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

from benchmarks.bare_batch import BareBatch, bare_batch
from benchmarks.result import Result, at_least, at_most, median, rounded
from benchmarks.server import Server, running_server
from benchmarks.speed import rendered
from prism.catalog import PAGED_DEMO_MODEL

# When the tokens of each client came.
Times: TypeAlias = list[list[float]]

_WIDTHS = (1, 2, 4, 8)
_ROUNDS = 3
_TOKENS = 64
_SUBJECTS = ("a river", "a lighthouse", "a train", "a garden", "a mountain", "a harbour", "a library", "a desert")
_STORIES = [f"Write a long story about {subject} and the people who live beside it." for subject in _SUBJECTS]
_RUNNERS = 3
_JOIN_AFTER = 20
# Together with the template about 700 tokens.
_SENTENCES = 81
_number = itertools.count()


def measure_parallel(models: Path) -> list[Result]:
    """Take turns with the bare engine."""
    folder = models / PAGED_DEMO_MODEL

    if not folder.exists():
        raise SystemExit(f"{folder} is missing: run `prism pull {PAGED_DEMO_MODEL}` first")

    with (
        bare_batch(folder) as batch,
        running_server(models, "--parallel", str(max(_WIDTHS)), model=PAGED_DEMO_MODEL) as server,
    ):
        return [*_throughput(batch, server, folder), _pause(batch, server, folder)]


def _throughput(batch: BareBatch, server: Server, folder: Path) -> list[Result]:
    prompts = [rendered(folder, story) for story in _STORIES]
    bare: dict[int, list[float]] = {width: [] for width in _WIDTHS}
    through_http: dict[int, list[float]] = {width: [] for width in _WIDTHS}

    for _ in range(_ROUNDS):
        for width in _WIDTHS:
            bare[width].append(_rate(batch.answer(prompts[:width], _TOKENS)))
            through_http[width].append(_rate(_streams(server, _STORIES[:width])))

    details = {
        "http": {str(width): round(median(rates), 1) for width, rates in through_http.items()},
        "bare": {str(width): round(median(rates), 1) for width, rates in bare.items()},
    }
    gains = [four / one for four, one in zip(through_http[4], through_http[1], strict=True)]
    shares = [ours / theirs for ours, theirs in zip(through_http[4], bare[4], strict=True)]

    return [
        at_least("tokens_per_s_of_4_over_1", median(gains), "ratio", 2, all=rounded(gains, 2), **details),
        at_least("tokens_per_s_of_4_over_bare", median(shares), "ratio", 0.9, all=rounded(shares, 2)),
    ]


def _pause(batch: BareBatch, server: Server, folder: Path) -> Result:
    """The longest silence of three streams while somebody else's prompt of 700 tokens is read."""
    prompts = [rendered(folder, story) for story in _STORIES[:_RUNNERS]]
    bare, through_http, waits = [], [], []

    for _ in range(_ROUNDS):
        times = batch.answer(prompts, _TOKENS, rendered(folder, _long_prompt()), _JOIN_AFTER)
        bare.append(_longest_gap(times[:-1]))
        joined_at, first_at, runners = _join(server)
        through_http.append(_longest_gap(runners))
        waits.append(first_at - joined_at)

    details = {"http_s": rounded(through_http), "bare_s": rounded(bare), "joiner_first_token_s": rounded(waits)}

    return at_most("pause_by_a_joining_prompt", median(through_http), "s", 0.5, **details)


def _join(server: Server) -> tuple[float, float, Times]:
    """When the long prompt was sent, when it was answered, and the tokens of the others."""
    with ThreadPoolExecutor(_RUNNERS) as pool:
        runners = [pool.submit(_times_of, server, story) for story in _STORIES[:_RUNNERS]]
        _wait_until(lambda: server.call("GET", "/health")["queue"]["running"] == _RUNNERS)
        joiner = server.stream(_long_prompt(), 1, PAGED_DEMO_MODEL)

        return joiner.sent_at, joiner.times[0], [runner.result() for runner in runners]


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30

    while not is_so():
        assert time.monotonic() < deadline, "the streams did not begin"
        time.sleep(0.02)


def _long_prompt() -> str:
    """Another one each time, or else the engine would have it already."""
    return f"Story {next(_number)}. " + "The old man walks to the sea. " * _SENTENCES


def _streams(server: Server, contents: Sequence[str]) -> Times:
    """All at the same time."""
    ready = threading.Barrier(len(contents))

    def stream(content: str) -> list[float]:
        ready.wait()
        return _times_of(server, content)

    with ThreadPoolExecutor(len(contents)) as pool:
        return list(pool.map(stream, contents))


def _times_of(server: Server, content: str) -> list[float]:
    return server.stream(content, _TOKENS, PAGED_DEMO_MODEL).times


def _rate(times: Times) -> float:
    """Tokens a second of all together, while all of them get some."""
    begin, end = max(one[0] for one in times), min(one[-1] for one in times)

    return sum(1 for one in times for at in one if begin < at <= end) / (end - begin)


def _longest_gap(times: Times) -> float:
    return max(later - earlier for one in times for earlier, later in itertools.pairwise(one))
