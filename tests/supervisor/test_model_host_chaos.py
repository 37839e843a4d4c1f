"""The host under random requests, leavers, kills, unloads and swaps: every request gets exactly one end, and nothing is left.

Each run follows its seed; what the machine makes of the order is not in the seed, so a failure may need some runs to come again.
"""

import asyncio
import contextlib
import json
import logging
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ipc.messages import Delta, Finished, FinishReason, GenerationTask, Sampling, Started
from supervisor.errors import (
    ContextLengthExceeded,
    EngineFailed,
    EngineOutOfMemory,
    ModelLoadFailed,
    SupervisorError,
    WorkerDied,
    WorkerUnresponsive,
)
from supervisor.host_status import HostState
from supervisor.model_host import ModelHost
from supervisor.settings import ModelRef, SupervisorSettings

MakeModel = Callable[..., ModelRef]
STEPS = 400
# So that most of what happens meets one that runs, and not one of a long queue.
MOST_AT_ONCE = 4
# What a request's script makes of it when nobody disturbs it; None means that it never ends by itself.
SCRIPTS: list[tuple[dict[str, Any], type[SupervisorError] | str | None]] = [
    ({}, "stop"),
    ({}, "stop"),
    ({"delay_s": 0.003}, "stop"),
    ({"prefill": 10, "prefill_s": 0.002}, "stop"),
    ({"at": {"token:2": "kill"}}, WorkerDied),
    ({"at": {"started": "segv"}}, WorkerDied),
    ({"at": {"before-end": "exit:1"}}, WorkerDied),
    ({"at": {"after-end": "kill"}}, "stop"),
    ({"at": {"token:1": "garbage"}, "delay_s": 0.05}, WorkerDied),
    ({"at": {"token:1": "foreign"}, "delay_s": 0.05}, WorkerDied),
    ({"at": {"after-end": "double-end"}}, "stop"),
    ({"fail": {"code": "engine_error", "message": "m", "is_fatal": False}}, EngineFailed),
    ({"fail": {"code": "out_of_memory", "message": "m", "is_fatal": True}}, EngineOutOfMemory),
    ({"reject": {"code": "context_length_exceeded", "message": "m"}}, ContextLengthExceeded),
    ({"at": {"token:1": "sleep"}}, None),
]


@dataclass
class Request:
    """One request and what became of it."""

    number: int
    expected: type[SupervisorError] | str | None
    ends: list[str] = field(default_factory=list)
    was_cancelled: bool = False
    has_turn: bool = False
    task: "asyncio.Task[None] | None" = None


def workers_alive() -> list[int]:
    """Direct children that are not zombies."""
    alive = []

    for path in Path("/proc/self/task").glob("*/children"):
        for pid in map(int, path.read_text().split()):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                    alive.append(pid)

    return alive


class Chaos:
    """Does random things to a host and watches it."""

    def __init__(self, host: ModelHost, models: list[ModelRef], seed: int) -> None:
        self._host = host
        self._models = models
        self._random = random.Random(seed)
        self.requests: list[Request] = []
        self._others: list[asyncio.Task[Any]] = []
        self.most_alive = 0
        self.kills = 0

    async def run(self) -> None:
        watching = asyncio.create_task(self._watch())
        actions = [self._ask] * 8 + [self._leave] * 4 + [self._kill] * 2 + [self._unload] + [self._pause] * 3

        for _ in range(STEPS):
            await self._random.choice(actions)()

        await self._finish()
        watching.cancel()
        await asyncio.wait({watching})

    async def _watch(self) -> None:
        while True:
            self.most_alive = max(self.most_alive, len(workers_alive()))
            await asyncio.sleep(0.003)

    def _live(self) -> list[Request]:
        return [request for request in self.requests if request.task is not None and not request.task.done()]

    async def _ask(self) -> None:
        if len(self._live()) > MOST_AT_ONCE:
            await asyncio.sleep(0.01)
            return

        script, expected = self._random.choice(SCRIPTS)
        request = Request(len(self.requests), expected)
        self.requests.append(request)
        request.task = asyncio.create_task(
            self._serve(request, self._random.choices(self._models, (6, 1, 1, 1))[0], script)
        )

    async def _serve(self, request: Request, model: ModelRef, script: dict[str, Any]) -> None:
        text = [f"r{request.number}t{n} " for n in range(4)]
        prompt = "@stand-in " + json.dumps({"text": text, "at": {}} | script)
        seen: list[str] = []

        try:
            async with self._host.turn(model) as turn:
                request.has_turn = True

                async for message in turn.generate(
                    GenerationTask(prompt=(prompt,), max_tokens=16, sampling=Sampling(temperature=0.0))
                ):
                    match message:
                        case Started():
                            assert not seen, "Started comes first and once"
                            seen.append("")
                        case Delta():
                            seen.append(message.text)
                            assert seen == ["", *text[: len(seen) - 1]], "its own text, in order, nothing twice"
                        case Finished():
                            request.ends.append(message.reason)
                            assert message.reason is not FinishReason.STOP or seen == ["", *text]
        except SupervisorError as error:
            request.ends.append(type(error).__name__)
        except asyncio.CancelledError:
            request.ends.append("left")
            raise

    async def _leave(self) -> None:
        live = self._live()
        # The one that runs is one of many, and the one whose leaving asks most of the host.
        running = [request for request in live if request.has_turn]

        if live:
            request = self._random.choice(running if running and self._random.random() < 0.7 else live)
            request.was_cancelled = True
            assert request.task is not None
            request.task.cancel()

    async def _kill(self) -> None:
        pid = self._host.status().worker_pid

        if pid is not None:
            self.kills += 1
            os.kill(pid, self._random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT]))

    async def _unload(self) -> None:
        task = asyncio.create_task(self._host.unload())
        self._others.append(task)

        if self._random.random() < 0.3:
            asyncio.get_running_loop().call_later(self._random.random() * 0.05, task.cancel)

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.choice([0, 0, 0.001, 0.01, 0.05]))

    async def _finish(self) -> None:
        """Let everything come to its end; those that never end by themselves are left by their clients."""
        async with asyncio.timeout(40):
            while live := self._live():
                for request in live:
                    if request.expected is None:
                        request.was_cancelled = True
                        assert request.task is not None
                        request.task.cancel()

                await asyncio.sleep(0.05)

            await asyncio.gather(*self._others, return_exceptions=True)


ALLOWED_UNDER_KILLS = {WorkerDied.__name__, ModelLoadFailed.__name__, WorkerUnresponsive.__name__}


def check_ends(chaos: Chaos) -> None:
    for request in chaos.requests:
        assert request.task is not None
        # A client that leaves may do so before its request began, or when it had its end.
        ends = [end for end in request.ends if end != "left"]
        assert len(ends) <= 1, request
        assert request.ends or request.was_cancelled, request

        if not request.was_cancelled:
            assert not request.task.cancelled(), request
            assert request.task.exception() is None, request
            expected = request.expected.__name__ if isinstance(request.expected, type) else request.expected
            assert ends[0] == expected or ends[0] in ALLOWED_UNDER_KILLS, request


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_request_gets_exactly_one_end_and_the_host_lives_on(
    settings: SupervisorSettings, make_model: MakeModel, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    caplog.set_level(logging.ERROR)
    host = ModelHost(replace(settings, max_queue=0, cancel_grace_s=0.2, stop_grace_s=0.2))
    models = [make_model("a"), make_model("b"), make_model("c", at={"load": "exit:1"}), make_model("d", load_s=0.05)]
    chaos = Chaos(host, models, seed)

    try:
        await chaos.run()
        check_ends(chaos)
        assert chaos.most_alive == 1, "never two workers at a time"
        await check_it_lives_on(host, chaos, models[0])
    finally:
        await host.close()

    assert asyncio.all_tasks() == {asyncio.current_task()}
    told = [record.getMessage() for record in caplog.records]
    assert not [text for text in told if "in the background" in text or "exception" in text.lower()]


async def check_it_lives_on(host: ModelHost, chaos: Chaos, model: ModelRef) -> None:
    last = Request(10_000, "stop")
    await asyncio.wait_for(chaos._serve(last, model, {}), 10)
    assert last.ends == ["stop"]
    assert host.status().waiting == 0
    assert (await asyncio.wait_for(host.unload(), 10)).model_id == model.model_id
    assert workers_alive() == []
    assert host.status().state is HostState.IDLE
