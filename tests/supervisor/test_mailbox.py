"""A queue for one reader."""

import asyncio

import pytest

from supervisor.mailbox import Mailbox


async def test_items_come_in_order_also_when_they_were_there_before() -> None:
    mailbox: Mailbox[int] = Mailbox()
    mailbox.put(1)
    mailbox.put(2)
    assert await mailbox.get() == 1
    assert await mailbox.get() == 2


async def test_a_reader_that_waits_is_woken() -> None:
    mailbox: Mailbox[str] = Mailbox()
    reading = asyncio.create_task(mailbox.get())
    await asyncio.sleep(0)
    assert not reading.done()
    mailbox.put("a")
    assert await reading == "a"


async def test_many_puts_before_the_reader_runs_wake_it_once_and_lose_nothing() -> None:
    mailbox: Mailbox[int] = Mailbox()
    reading = asyncio.create_task(mailbox.get())
    await asyncio.sleep(0)

    for number in range(100):
        mailbox.put(number)

    assert await reading == 0
    assert [mailbox.get_ready() for _ in range(100)] == [*range(1, 100), None]


async def test_get_ready_does_not_wait() -> None:
    mailbox: Mailbox[int] = Mailbox()
    assert mailbox.get_ready() is None
    mailbox.put(1)
    assert mailbox.get_ready() == 1
    assert mailbox.get_ready() is None


async def test_a_reader_that_leaves_loses_nothing() -> None:
    mailbox: Mailbox[int] = Mailbox()
    reading = asyncio.create_task(mailbox.get())
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait({reading})
    mailbox.put(1)
    assert await mailbox.get() == 1


async def test_a_reader_that_leaves_in_the_moment_of_the_put_loses_nothing() -> None:
    mailbox: Mailbox[int] = Mailbox()
    reading = asyncio.create_task(mailbox.get())
    await asyncio.sleep(0)
    mailbox.put(1)
    reading.cancel()

    with pytest.raises(asyncio.CancelledError):
        await reading

    assert await asyncio.wait_for(mailbox.get(), 1) == 1


async def test_a_reader_whose_time_is_over_may_come_again() -> None:
    mailbox: Mailbox[int] = Mailbox()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(mailbox.get(), 0.01)

    mailbox.put(1)
    assert await mailbox.get() == 1
