"""Prompts are made beside the event loop: whatever a template takes, others are answered meanwhile."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from prism.api.errors import ApiError
from prism.api.refusals import invalid_request
from prism.http.prompt_thread import PromptThread
from supervisor.settings import ModelRef
from tests.whole.conftest import Start

# Runs until the budget of a rendering is used up, which is half a second of processor time.
ENDLESS = "{% for a in range(10000) %}{% for b in range(10000) %}{% set c = a * b %}{% endfor %}{% endfor %}"


@pytest.fixture
async def prompts() -> AsyncIterator[PromptThread]:
    thread = PromptThread()
    yield thread
    await thread.close()


async def test_preparations_run_one_after_the_other_in_their_order(prompts: PromptThread) -> None:
    seen: list[int] = []
    running = threading.Lock()

    def prepare(number: int) -> int:
        assert running.acquire(blocking=False)
        seen.append(number)
        running.release()
        return number

    results = await asyncio.gather(*(prompts.run(partial(prepare, number)) for number in range(50)))
    assert results == seen == list(range(50))


async def test_what_a_preparation_raises_is_raised(prompts: PromptThread) -> None:
    def refuse() -> None:
        raise invalid_request("no", "messages")

    with pytest.raises(ApiError, match="no"):
        await prompts.run(refuse)


async def test_a_preparation_whose_caller_left_before_its_turn_never_runs(prompts: PromptThread) -> None:
    gate = threading.Event()
    seen: list[str] = []
    first = asyncio.create_task(prompts.run(gate.wait))
    second = asyncio.create_task(prompts.run(lambda: seen.append("second")))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    gate.set()
    await first
    await prompts.run(lambda: seen.append("third"))

    assert seen == ["third"]


async def test_a_template_that_takes_its_time_holds_nobody_up(
    start_server: Start, make_model: Callable[..., ModelRef]
) -> None:
    model = make_model(text=["yes"])
    (model.path / "chat_template.jinja").write_text(ENDLESS)
    server = await start_server()
    began_at = time.monotonic()
    chat = asyncio.create_task(server.chat())
    longest = 0.0

    while not chat.done():
        asked_at = time.monotonic()

        async with server.get("/health") as response:
            assert response.status == 200

        longest = max(longest, time.monotonic() - asked_at)

    # The built-in format stands in for a template that fails.
    assert (await chat)["choices"][0]["message"]["content"] == "yes"
    taken = time.monotonic() - began_at
    assert taken > 0.4
    assert longest < taken / 2
