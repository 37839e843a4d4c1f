"""Work that outlives its caller: it is finished, waited for, and its errors are told."""

import asyncio
import logging

import pytest

from supervisor.background import Background
from supervisor.errors import WorkerUnresponsive


async def test_close_waits_for_all_work_and_for_work_that_work_has_started() -> None:
    background = Background()
    done: list[str] = []

    async def second() -> None:
        await asyncio.sleep(0.01)
        done.append("second")

    async def first() -> None:
        await asyncio.sleep(0.01)
        background.start(second())
        done.append("first")

    background.start(first())
    await background.close()
    assert done == ["first", "second"]


async def test_a_caller_that_leaves_does_not_end_the_work() -> None:
    background = Background()
    may_go_on = asyncio.Event()
    done: list[str] = []

    async def work() -> None:
        await may_go_on.wait()
        done.append("work")

    caller = asyncio.create_task(background.finish(work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()

    with pytest.raises(asyncio.CancelledError):
        await caller

    assert done == []
    may_go_on.set()
    await background.close()
    assert done == ["work"]


async def test_finish_raises_the_error_of_the_work() -> None:
    background = Background()

    async def work() -> None:
        raise ValueError("made up")

    with pytest.raises(ValueError, match="made up"):
        await background.finish(work())

    await background.close()


async def test_an_error_that_nobody_awaits_is_logged_and_close_does_not_raise_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    background = Background()

    async def work() -> None:
        raise ValueError("made up")

    with caplog.at_level(logging.ERROR):
        background.start(work())
        await background.close()

    assert "made up" in caplog.text


async def test_an_error_of_work_whose_caller_has_left_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    background = Background()
    may_go_on = asyncio.Event()

    async def work() -> None:
        await may_go_on.wait()
        raise ValueError("made up")

    caller = asyncio.create_task(background.finish(work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait({caller})
    may_go_on.set()
    await background.close()
    assert "made up" in caplog.text


async def test_work_that_was_cancelled_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    background = Background()

    async def work() -> None:
        raise asyncio.CancelledError

    background.start(work())
    await background.close()
    assert caplog.text == ""


async def test_close_without_work_returns() -> None:
    await Background().close()


async def test_an_error_that_nobody_foresaw_is_told_to_the_owner(caplog: pytest.LogCaptureFixture) -> None:
    told: list[BaseException] = []
    background = Background(told.append)

    async def breaks(error: BaseException) -> None:
        raise error

    bug = ValueError("made up")
    background.start(breaks(bug))
    background.start(breaks(WorkerUnresponsive("it cannot be ended")))
    background.start(breaks(asyncio.CancelledError()))
    await background.close()

    assert told == [bug]
    assert caplog.text.count("Traceback") == 1
    assert "it cannot be ended" in caplog.text
