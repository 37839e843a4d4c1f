"""Calls into something that may never return."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from supervisor.deadline_thread import DeadlineThread, NoAnswer
from tests.supervisor.fake_nvml import until

_NAME = "test-helper"


def _living() -> int:
    return sum(thread.name == _NAME for thread in threading.enumerate())


async def test_the_work_is_done_in_one_thread_of_its_own() -> None:
    helper = DeadlineThread(_NAME, 5.0)
    names = [await helper.call(lambda: threading.current_thread().name) for _ in range(3)]

    assert names == [_NAME] * 3
    assert _living() == 1
    await helper.close()


async def test_there_is_no_thread_before_the_first_call_and_none_after_close() -> None:
    helper = DeadlineThread(_NAME, 5.0)
    assert not helper.is_started
    assert _living() == 0

    await helper.call(lambda: None)
    await helper.close()

    assert _living() == 0


async def test_an_error_of_the_work_reaches_the_caller_and_the_thread_lives_on() -> None:
    helper = DeadlineThread(_NAME, 5.0)

    with pytest.raises(ZeroDivisionError):
        await helper.call(lambda: 1 // 0)

    assert await helper.call(lambda: 7) == 7
    await helper.close()


async def test_a_call_that_hangs_is_given_up_after_the_deadline_and_does_not_multiply() -> None:
    helper = DeadlineThread(_NAME, 0.1)
    release = threading.Event()

    with pytest.raises(NoAnswer, match=r"did not answer within 0\.1 s"):
        await helper.call(release.wait)

    assert helper.is_hung
    began = time.monotonic()

    for _ in range(50):
        with pytest.raises(NoAnswer, match="still hangs"):
            await helper.call(lambda: None)

    assert time.monotonic() - began < 0.1
    assert _living() == 1
    release.set()
    await helper.close()


async def test_a_thread_that_comes_back_serves_again() -> None:
    helper = DeadlineThread(_NAME, 0.1)
    release = threading.Event()

    with pytest.raises(NoAnswer):
        await helper.call(release.wait)

    async def is_back() -> bool:
        return not helper.is_hung

    release.set()
    await until(is_back)
    assert await helper.call(lambda: "here") == "here"
    await helper.close()


async def test_a_call_that_waits_behind_a_hanging_one_is_never_begun() -> None:
    helper = DeadlineThread(_NAME, 0.1)
    release = threading.Event()
    begun: list[str] = []

    async def second() -> None:
        await helper.call(lambda: begun.append("second"))

    answers = await asyncio.gather(helper.call(release.wait), second(), return_exceptions=True)

    assert [type(answer) for answer in answers] == [NoAnswer, NoAnswer]
    release.set()
    await helper.close()
    assert begun == []


async def test_a_caller_that_leaves_takes_its_call_with_it() -> None:
    helper = DeadlineThread(_NAME, 5.0)
    release = threading.Event()
    begun: list[str] = []
    first = asyncio.create_task(helper.call(release.wait))
    second = asyncio.create_task(helper.call(lambda: begun.append("second")))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait({second})
    release.set()
    await first
    await helper.close()

    assert begun == []


async def test_a_hang_whose_caller_left_is_found_by_the_next_one() -> None:
    helper = DeadlineThread(_NAME, 0.1)
    release, entered = threading.Event(), threading.Event()

    def hang() -> None:
        entered.set()
        release.wait()

    first = asyncio.create_task(helper.call(hang))
    await asyncio.to_thread(entered.wait)
    first.cancel()
    await asyncio.wait({first})

    with pytest.raises(NoAnswer, match="did not answer"):
        await helper.call(lambda: None)

    assert helper.is_hung
    release.set()
    await helper.close()


async def test_close_does_not_wait_for_a_hung_thread() -> None:
    helper = DeadlineThread(_NAME, 0.1)
    release = threading.Event()
    thread = (await asyncio.gather(helper.call(threading.current_thread)))[0]

    with pytest.raises(NoAnswer):
        await helper.call(release.wait)

    began = time.monotonic()
    await helper.close()
    assert time.monotonic() - began < 0.1

    # A hung thread that comes back after all finds that it is closed, and ends.
    release.set()
    thread.join(5.0)
    assert not thread.is_alive()


async def test_close_gives_up_a_call_that_begins_to_hang_meanwhile() -> None:
    helper = DeadlineThread(_NAME, 0.1)
    release, entered = threading.Event(), threading.Event()

    def hang() -> None:
        entered.set()
        release.wait()

    call = asyncio.create_task(helper.call(hang))
    await asyncio.to_thread(entered.wait)
    call.cancel()
    await asyncio.wait({call})
    await helper.close()
    release.set()

    for thread in threading.enumerate():
        if thread.name == _NAME:
            thread.join(5.0)


async def test_a_call_after_close_is_refused_and_close_twice_is_close_once() -> None:
    helper = DeadlineThread(_NAME, 5.0)
    await helper.call(lambda: None)
    await helper.close()
    await helper.close()

    with pytest.raises(NoAnswer, match="is closed"):
        await helper.call(lambda: None)

    assert _living() == 0


def test_a_hung_thread_does_not_keep_the_process_alive() -> None:
    program = """
import asyncio, threading
from supervisor.deadline_thread import DeadlineThread, NoAnswer

async def main():
    helper = DeadlineThread("helper", 0.1)
    try:
        await helper.call(threading.Event().wait)
    except NoAnswer:
        print("given up")
    await helper.close()

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "given up\n", "")
