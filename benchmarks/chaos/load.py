"""Clients that ask, and some that leave in the middle; each answer is judged as it comes. What they do follows from the seed."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from benchmarks.chaos.explain import Outcome
from benchmarks.chaos.http_answer import HttpAnswer
from benchmarks.chaos.observer import ANSWERED, Fault, Reading, read_exchange
from benchmarks.chaos.wire import Ending, Received, Wire, connect, request

LEFT = "left"
LOST = "lost"
_MOST_ON_A_CONNECTION = 3
_LEAVERS = 0.12
_LONGEST_STAY_S = 0.3
_LONGEST_THOUGHT_S = 0.03
_REFUSED = 503
# Clients that come back at once would be most of what the server has to do.
_AFTER_REFUSAL_S = 0.5


@dataclass(frozen=True, slots=True)
class Question:
    """One request. expected: its text when it is answered whole; None when nobody can know."""

    number: int
    model: str
    path: str
    body: bytes
    is_stream: bool
    expected: str | None


class Asks(Protocol):
    """Makes the requests of one kind of worker."""

    def question(self, number: int, random: Random) -> Question:
        """Return the next request."""


@dataclass(slots=True)
class Seen:
    """What all clients saw. faults: what was wrong with it."""

    outcomes: list[Outcome] = field(default_factory=list)
    faults: list[tuple[Fault, str]] = field(default_factory=list)

    def take(self, question: Question, received: Received) -> None:
        """Judge one exchange."""
        reading = read_exchange(
            bytes(received.data), is_over=received.ending is not Ending.LEFT, wants_stream=question.is_stream
        )
        _check_text(question, reading)

        if received.is_left_open:
            reading.complain(Fault.LEFT_OPEN)

        outcome = _outcome(reading, received)
        times = received.sent_at, received.over_at, received.text_at()
        self.outcomes.append(Outcome(question.number, question.model, outcome, *times))

        for fault, seen in reading.faults:
            self.faults.append((fault, f"request {question.number} ({received.ending}): {seen}"))


def _outcome(reading: Reading, received: Received) -> str:
    if received.ending is Ending.LEFT:
        return LEFT

    return reading.outcome if received.ending is Ending.WHOLE and reading.terminals else LOST


def _check_text(question: Question, reading: Reading) -> None:
    if question.expected is None:
        return

    is_right = (
        reading.text == question.expected if reading.outcome == ANSWERED else question.expected.startswith(reading.text)
    )

    if not is_right:
        reading.complain(Fault.WRONG_TEXT, f"{reading.text!r} instead of {question.expected!r}")


class Clients:
    """Asks with `count` clients at once until `until`. bound_s: longest wait for an answer."""

    def __init__(self, port: int, asks: Asks, count: int, seed: int, bound_s: float) -> None:
        self._port = port
        self._asks = asks
        self._count = count
        self._seed = seed
        self._bound_s = bound_s
        self._numbers = 0
        self.seen = Seen()

    async def run(self, until: float) -> None:
        """Return when every request has its end."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._count):
                tasks.create_task(self._client(Random(f"{self._seed}/{number}"), until))

    async def _client(self, random: Random, until: float) -> None:
        while time.monotonic() < until:
            try:
                wire = await connect(self._port)
            except OSError as error:
                self.seen.faults.append((Fault.REFUSED, str(error)))
                await asyncio.sleep(_LONGEST_STAY_S)
                continue

            asked = random.randint(1, _MOST_ON_A_CONNECTION)

            for left in reversed(range(asked)):
                answer = await self._ask(wire, random, is_last=left == 0)
                is_refused = answer is not None and answer.status == _REFUSED
                await asyncio.sleep(_AFTER_REFUSAL_S if is_refused else random.uniform(0, _LONGEST_THOUGHT_S))

                if answer is None or answer.headers.get("connection") == "close":
                    break

            wire.close(is_rude=random.random() < 0.5)

    async def _ask(self, wire: Wire, random: Random, *, is_last: bool) -> HttpAnswer | None:
        """Return the whole answer; None when there is none."""
        self._numbers += 1
        question = self._asks.question(self._numbers, random)
        leave_after_s = random.uniform(0, _LONGEST_STAY_S) if random.random() < _LEAVERS else None
        received = await wire.ask(
            request("POST", question.path, question.body, closes=is_last),
            self._bound_s,
            until_closed=is_last,
            leave_after_s=leave_after_s,
        )
        self.seen.take(question, received)
        return received.answer() if received.ending is Ending.WHOLE else None


class AsksStandIns:
    """For the tests' stand-in worker, which says what it is asked to say: so a text that belongs to another request is seen."""

    def __init__(self, models: Sequence[str]) -> None:
        self._models = models

    def question(self, number: int, random: Random) -> Question:
        """Return a request for a text of its own."""
        model = _model(self._models, random)
        text = [f"r{number}.{n};" for n in range(random.randint(1, 30))]
        script = {"text": text, "delay_s": random.choice((0, 0, 0.002, 0.005)), "prefill": random.choice((0, 0, 4))}
        prompt = "@stand-in " + json.dumps(script | {"prefill_s": 0.005})
        most = random.choice((len(text), 64, 5))
        return _question(number, model, prompt, most, random, "".join(text[:most]))


class AsksEngine:
    """For the engine with small models, whose texts nobody can foresee."""

    def __init__(self, models: Sequence[str]) -> None:
        self._models = models

    def question(self, number: int, random: Random) -> Question:
        """Return a request, now and then with a prompt of several slices."""
        words = random.choice((3, 10, 40, 250))
        prompt = f"Request {number}: " + " ".join(random.choice(("river", "stone", "light")) for _ in range(words))
        return _question(number, _model(self._models, random), prompt, random.choice((1, 8, 40, 120)), random, None)


def _model(models: Sequence[str], random: Random) -> str:
    """The first one most of the time, so that not every request is a swap."""
    return models[0] if random.random() < 0.95 else random.choice(models[1:])


def _question(number: int, model: str, prompt: str, max_tokens: int, random: Random, expected: str | None) -> Question:
    is_stream = random.random() < 0.6
    fields = {"model": model, "max_tokens": max_tokens, "stream": is_stream, "temperature": 0}

    chat, completion = {"messages": [{"role": "user", "content": prompt}]}, {"prompt": prompt}
    is_chat = random.random() < 0.8
    body = json.dumps(fields | (chat if is_chat else completion)).encode()
    path = "/v1/chat/completions" if is_chat else "/v1/completions"
    return Question(number, model, path, body, is_stream, expected)
