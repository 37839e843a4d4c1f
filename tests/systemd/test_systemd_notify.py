"""What is said to systemd, in which order, and what happens when nobody listens."""

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.systemd_notify import Notifier, Pace
from tests.systemd.fake_systemd import FakeSystemd

QUICK = Pace(status_s=0.02, extend_s=0.02, extension_s=1.5)


@asynccontextmanager
async def running(
    socket_name: str | None, status: Callable[[], str] = lambda: "idle", watchdog_s: float | None = None
) -> AsyncIterator[asyncio.Event]:
    """Run a notifier; give the event that begins the drain."""
    draining = asyncio.Event()

    async with Notifier(socket_name, watchdog_s, QUICK) as notifier:
        notifier.start(status, draining)
        yield draining


async def test_it_says_ready_then_alive_then_stopping(any_systemd: FakeSystemd) -> None:
    async with running(any_systemd.address, watchdog_s=0.05) as draining:
        first = await any_systemd.next()
        alive = [*await any_systemd.until("WATCHDOG=1"), *await any_systemd.until("WATCHDOG=1")]
        draining.set()
        end = await any_systemd.until("STOPPING=1")

    assert first.text == "READY=1\nSTATUS=idle"
    assert end[-1].text == "STOPPING=1\nSTATUS=idle"
    assert {notice.text for notice in alive + end[:-1]} <= {"WATCHDOG=1", "STATUS=idle"}
    assert {notice.pid for notice in [first, *alive, *end]} == {os.getpid()}


async def test_a_status_is_told_when_it_changes_and_only_then(systemd: FakeSystemd) -> None:
    told = ["loading"]

    async with running(systemd.address, lambda: told[-1]):
        await systemd.until("STATUS=loading")
        await asyncio.sleep(5 * QUICK.status_s)
        repeated = systemd.waiting()
        told.append("busy tiny on cpu, 3 waiting")
        changed = await systemd.next()

    # READY brings the first status; the report may say it once more.
    assert [notice.text for notice in repeated] in ([], ["STATUS=loading"])
    assert changed.text == "STATUS=busy tiny on cpu, 3 waiting"


async def test_it_asks_for_time_again_and_again_while_it_drains(systemd: FakeSystemd) -> None:
    async with running(systemd.address) as draining:
        await systemd.until("READY=1")
        before = systemd.waiting()
        draining.set()
        await systemd.until("STOPPING=1")
        asked = [(await systemd.next()).text for _ in range(3)]

    assert not [notice for notice in before if "EXTEND" in notice.text]
    assert asked == ["EXTEND_TIMEOUT_USEC=1500000"] * 3


async def test_the_watchdog_is_fed_at_half_its_interval(systemd: FakeSystemd) -> None:
    async with running(systemd.address, watchdog_s=0.2):
        await systemd.until("WATCHDOG=1")
        times = [time.monotonic()]

        for _ in range(5):
            await systemd.until("WATCHDOG=1")
            times.append(time.monotonic())

    # The median, so that one turn of a busy machine does not count.
    assert 0.07 < median(later - earlier for earlier, later in pairwise(times)) < 0.15


async def test_the_watchdog_is_still_fed_while_it_drains(systemd: FakeSystemd) -> None:
    async with running(systemd.address, watchdog_s=0.02) as draining:
        draining.set()
        await systemd.until("STOPPING=1")
        await systemd.until("WATCHDOG=1")


async def test_no_watchdog_is_fed_when_none_is_asked_for(systemd: FakeSystemd) -> None:
    async with running(systemd.address) as draining:
        await systemd.until("READY=1")
        draining.set()
        notices = [await systemd.next() for _ in range(5)]

    assert not [notice for notice in notices if "WATCHDOG" in notice.text]


async def test_a_loop_that_stands_still_is_silent_and_then_goes_on(systemd: FakeSystemd) -> None:  # F24
    interval_s = 0.04

    async with running(systemd.address, watchdog_s=interval_s):
        await systemd.until("WATCHDOG=1")
        systemd.waiting()
        time.sleep(5 * interval_s)  # noqa: ASYNC251 - blocking the loop is the point
        meanwhile = systemd.waiting()
        await systemd.until("WATCHDOG=1")
        at_once = [notice for notice in systemd.waiting() if "WATCHDOG" in notice.text]

    assert meanwhile == []
    assert len(at_once) <= 1, "what was missed is not made up for"


async def test_without_a_socket_nothing_happens() -> None:
    async with Notifier(None, 0.02, QUICK) as notifier:
        notifier.start(lambda: pytest.fail("nobody asks"), asyncio.Event())
        await asyncio.sleep(0.05)
        assert not notifier.ready("idle")


@pytest.mark.parametrize("name", ["/nowhere/notify", "/tmp", "/" + "x" * 200, "@nobody-listens-here"])
async def test_a_socket_that_nobody_hears_hurts_nobody(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "prism.systemd_notify"):
        async with running(name, watchdog_s=0.02) as draining:
            await asyncio.sleep(4 * QUICK.status_s)
            draining.set()

    assert [record.message.partition(":")[0] for record in caplog.records] == ["systemd does not hear READY=1"]


async def test_ready_is_said_again_when_systemd_hears_again(runtime_dir: Path) -> None:
    path = runtime_dir / "notify"

    async with running(str(path), watchdog_s=0.02):
        await asyncio.sleep(3 * QUICK.status_s)
        late = FakeSystemd(str(path))
        first = await late.next()

    late.close()
    path.unlink()
    assert first.text.startswith("READY=1")


async def test_a_full_queue_does_not_block_and_loses_nothing_that_matters(systemd: FakeSystemd) -> None:
    told = ["idle"]

    async with running(systemd.address, lambda: told[-1]) as draining:
        await systemd.until("READY=1")
        await systemd.until("STATUS=idle")

        for status, drains, word in (("loading", False, "STATUS=loading"), ("draining", True, "STOPPING=1")):
            _fill(systemd.address)
            told.append(status)
            draining.set() if drains else None
            await asyncio.sleep(3 * QUICK.status_s)  # the loop still turns
            assert {notice.text for notice in systemd.waiting()} == {"X=1"}
            await systemd.until(word)


def _fill(address: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as other:
        for _ in range(100_000):
            try:
                other.sendto(b"X=1", address)
            except BlockingIOError:
                return

    raise AssertionError("the queue takes everything")


async def test_a_status_that_cannot_be_told_is_logged_and_ends_the_talk_only(
    systemd: FakeSystemd, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> str:
        raise KeyError("state")

    async with running(systemd.address, broken):
        await asyncio.sleep(0.02)

    assert "nothing more is said to systemd: KeyError('state')" in caplog.text


class TestWords:
    @given(st.text(max_size=40))
    def test_a_status_can_hold_no_second_word(self, status: str) -> None:
        told = _told(status)
        assert told.startswith("STATUS=")
        assert len(told.splitlines()) == 1

    @pytest.mark.parametrize(
        ("status", "told"),
        [("busy tiny\nMAINPID=1", "busy tiny MAINPID=1"), ("größe", "größe"), ("a\udcffb", "a b"), ("a\x00b", "a b")],
    )
    def test_what_is_told_is_one_line_of_text(self, status: str, told: str) -> None:
        assert _told(status) == f"STATUS={told}"


def _told(status: str) -> str:
    async def tell() -> str:
        fake = FakeSystemd(f"@prism-test-{os.getpid()}-{os.urandom(4).hex()}")

        try:
            async with Notifier(fake.address, None) as notifier:
                assert notifier.status(status)

            return (await fake.next()).text
        finally:
            fake.close()

    return asyncio.run(tell())
