"""Several requests in one worker: whatever joins, leaves or is cancelled beside it, each gets the tokens that it gets alone."""

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpu_worker.batch import Batch, Broke, Ended, Made
from gpu_worker.engine import GenAiEngine, import_library, load_engine
from gpu_worker.errors import RequestFault
from gpu_worker.generation import GenerationSettings
from gpu_worker.load_options import LoadOptions
from gpu_worker.loop import Loop
from gpu_worker.model_folder import read_model_folder
from gpu_worker.sampling import SearchOptions
from ipc.errors import ChannelClosed
from ipc.messages import (
    Cancel,
    Delta,
    DeviceChoice,
    Finished,
    FinishReason,
    FromWorker,
    Generate,
    RejectCode,
    Rejected,
    Sampling,
    Started,
    Terminal,
    ToWorker,
)
from prism.export.genai_config import DynamicBatching
from prism.export.tiny_model import write_tiny_model
from tests.gpu_worker.scripted import ScriptedChannel, request

pytestmark = pytest.mark.engine

PROMPTS = [
    "a",
    "Hello there",
    "The quick brown fox jumps over the lazy dog. " * 4,
    "The quick brown fox jumps over the lazy dog. The slow red hen " * 3,
    "x y z " * 20,
    "one two three",
]
MOST = 24
# `PRISM_INTERLEAVINGS=500` for the large run.
INTERLEAVINGS = int(os.environ.get("PRISM_INTERLEAVINGS", "25"))


def load(folder: Path, parallel: int = 1, chunk: int = 16, *, shares_prefixes: bool = True) -> GenAiEngine:
    options = LoadOptions(threads=1, parallel=parallel, prefill_chunk=chunk, shares_prefixes=shares_prefixes)
    return load_engine(import_library(), read_model_folder(folder), DeviceChoice.CPU, None, options)


@pytest.fixture(scope="module")
def paged_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paged")
    write_tiny_model(folder, batching=DynamicBatching(blocks=64, block_size=16, chunk_size=16))
    return folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each prompt is answered by the ordinary model: the text after each of its pieces."""
    folder = tmp_path_factory.mktemp("ordinary")
    write_tiny_model(folder)
    engine = load(folder)
    answers: dict[str, list[str]] = {}

    for prompt in PROMPTS:
        channel = serve(engine, ScriptedChannel([request(prompt, max_tokens=MOST)]))
        answers[prompt] = [message.text for message in channel.sent if isinstance(message, Delta)]

    return answers


def serve(engine: GenAiEngine, channel: ScriptedChannel) -> ScriptedChannel:
    with pytest.raises(ChannelClosed):
        Loop(channel, engine, engine.open_batch(16), GenerationSettings(has_loop_guard=False), lambda: False).run()

    return channel


class RandomFront(ScriptedChannel):
    """Sends requests and cancels at random moments, no more at a time than the worker takes; then it is gone."""

    def __init__(self, seed: int, parallel: int, requests: int) -> None:
        super().__init__()
        self._random = random.Random(seed)
        self._parallel = parallel
        self._left = requests
        self.asked: dict[int, str] = {}
        self.cancelled: set[int] = set()

    def receive(self, timeout_ms: int | None) -> ToWorker | None:
        running = self.asked.keys() - {end.request_id for end in self.terminals}

        if timeout_ms is None:
            if not self._left:
                raise ChannelClosed("the front is gone")

            return self._ask()

        if self._left and len(running) < self._parallel and self._random.random() < 0.2:
            return self._ask()

        if running and self._random.random() < 0.03:
            number = self._random.choice(sorted(running))
            self.cancelled.add(number)
            return Cancel(number)

        return None

    def _ask(self) -> Generate:
        self._left -= 1
        number = len(self.asked) + 1
        self.asked[number] = self._random.choice(PROMPTS)
        return request(self.asked[number], number=number, max_tokens=MOST)

    def texts(self, number: int) -> list[str]:
        return [message.text for message in self.sent if isinstance(message, Delta) and message.request_id == number]


@pytest.mark.timeout(600)
def test_whatever_joins_and_leaves_every_token_is_as_it_is_alone(
    paged_folder: Path, alone: dict[str, list[str]]
) -> None:
    engine = load(paged_folder, parallel=4)

    for seed in range(INTERLEAVINGS):
        front = RandomFront(seed, 4, requests=12)
        serve(engine, front)
        assert sorted(end.request_id for end in front.terminals) == sorted(front.asked), seed

        for end in front.terminals:
            assert isinstance(end, Finished), (seed, end)
            texts, expected = front.texts(end.request_id), alone[front.asked[end.request_id]]

            if end.reason is FinishReason.CANCELLED:
                assert end.request_id in front.cancelled
                # The last piece may be a character that was cut in the middle.
                assert texts[:-1] == expected[: len(texts[:-1])]
            else:
                assert texts == expected, (seed, end.request_id)


def test_requests_run_at_the_same_time(paged_folder: Path) -> None:
    channel = ScriptedChannel(polled=sender([request(PROMPTS[1], number=n, max_tokens=MOST) for n in (2, 3)]))
    channel._waiting = [request(PROMPTS[1], number=1, max_tokens=MOST)]
    serve(load(paged_folder, parallel=3), channel)
    first_end = next(number for number, message in enumerate(channel.sent) if isinstance(message, Terminal))
    started = {message.request_id for message in channel.sent[:first_end] if isinstance(message, Started)}
    assert started == {1, 2, 3}


def sender(messages: Sequence[ToWorker]) -> Callable[[list[FromWorker]], ToWorker | None]:
    """What a channel delivers when it is looked at, as soon as something was said."""
    waiting = list(messages)
    return lambda sent: waiting.pop(0) if waiting and sent else None


def test_a_request_that_asks_for_more_than_the_pool_has_gets_what_there_is(paged_folder: Path) -> None:
    """64 blocks of 16 tokens: the window of this model as it is loaded."""
    engine = load(paged_folder, parallel=2)
    assert engine.facts.context_length == 1024
    channel = serve(engine, ScriptedChannel([request("a", max_tokens=5_000)]))
    assert channel.sent[0] == Started(request_id=1, prompt_tokens=1, max_tokens=1023)
    (end,) = channel.terminals
    assert isinstance(end, Finished)
    assert end.reason in (FinishReason.LENGTH, FinishReason.STOP)


def test_a_prompt_past_the_pool_is_refused_with_both_numbers(paged_folder: Path) -> None:
    channel = serve(load(paged_folder), ScriptedChannel([request("x y z " * 600)]))
    (end,) = channel.terminals
    assert isinstance(end, Rejected)
    assert end.code is RejectCode.CONTEXT_LENGTH_EXCEEDED
    assert "1024 tokens" in end.message


def tokens_of(batch: Batch, number: int, *, most: int = 400) -> list[int]:
    tokens: list[int] = []

    for _ in range(most):
        for event in batch.step():
            if event.number == number and isinstance(event, Made):
                tokens.append(event.token)
            elif event.number == number and isinstance(event, Ended | Broke):
                return tokens

    return tokens


def test_who_does_not_fit_waits_for_room_and_comes_in_order(paged_folder: Path) -> None:
    batch = load(paged_folder, parallel=4).open_batch(16)
    large = SearchOptions.greedy(max_length=600)

    for number in (1, 2, 3):
        batch.join(number, [70] * 10, large)

    assert {event.number for _ in range(8) for event in batch.step()} == {1}
    batch.leave(1)
    assert {event.number for _ in range(8) for event in batch.step()} == {2}
    batch.leave(3)
    batch.leave(2)
    assert batch.step() == []


def test_a_sequence_that_left_gives_its_place_back_at_once(paged_folder: Path) -> None:
    batch = load(paged_folder, parallel=1).open_batch(16)

    for number in range(1, 30):
        batch.join(number, [70, 71, 72 + number], SearchOptions.greedy(max_length=60))

        for _ in range(3):
            batch.step()

        batch.leave(number)
        batch.leave(number)


def test_a_sequence_that_can_never_fit_is_refused(paged_folder: Path) -> None:
    batch = load(paged_folder).open_batch(16)

    with pytest.raises(RequestFault, match="1024 tokens"):
        batch.join(1, [70], SearchOptions.greedy(max_length=1025))


def test_a_prefix_that_was_seen_before_is_counted(paged_folder: Path) -> None:
    engine = load(paged_folder, parallel=2)
    prompt = PROMPTS[3]
    channel = serve(engine, ScriptedChannel([request(prompt, number=n, max_tokens=4) for n in (1, 2)]))
    first, second = (end for end in channel.terminals if isinstance(end, Finished))
    assert first.cached_tokens == 0
    assert first.prompt_tokens - 17 <= second.cached_tokens < second.prompt_tokens


def test_nothing_is_shared_where_requests_are_of_several_keys(paged_folder: Path) -> None:
    """The engine does not tell whose blocks they are: how soon an answer comes would tell one client what another has asked."""
    engine = load(paged_folder, parallel=2, shares_prefixes=False)
    channel = serve(engine, ScriptedChannel([request(PROMPTS[3], number=n, max_tokens=4) for n in (1, 2)]))
    assert [end.cached_tokens for end in channel.terminals if isinstance(end, Finished)] == [0, 0]


def test_the_same_seed_gives_the_same_text_also_beside_others(paged_folder: Path) -> None:
    engine = load(paged_folder, parallel=3)
    sampling = Sampling(temperature=1.0, top_p=1.0, seed=7)

    def text(*others: Generate) -> str:
        asked = request(PROMPTS[2], number=1, max_tokens=MOST, sampling=sampling)
        channel = ScriptedChannel([asked], sender(others))
        serve(engine, channel)
        return "".join(m.text for m in channel.sent if isinstance(m, Delta) and m.request_id == 1)

    assert text() == text(*(request(PROMPTS[4], number=n, max_tokens=MOST) for n in (2, 3)))


def test_an_answer_that_the_model_ends_is_counted_as_elsewhere(
    paged_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """This engine keeps the end token to itself; the other one gives it out like any other."""
    folder = tmp_path_factory.mktemp("ordinary")
    write_tiny_model(folder)
    asked = [request(f"{number} apples", number=number, max_tokens=300) for number in range(1, 41)]
    ordinary, paged = (serve(engine, ScriptedChannel(asked)).terminals for engine in (load(folder), load(paged_folder)))
    ends = [(end.reason, end.completion_tokens) for end in ordinary if isinstance(end, Finished)]

    assert FinishReason.STOP in dict(ends)
    assert [(end.reason, end.completion_tokens) for end in paged if isinstance(end, Finished)] == ends
