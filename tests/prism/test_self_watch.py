"""Which errors of the event loop end the server, and which are one connection's."""

import asyncio
import subprocess
import sys

import pytest

from prism.http.self_watch import is_of_supervision, watched_loop
from supervisor.errors import WorkerDied
from supervisor.worker_state import InvalidTransition, WorkerEvent, WorkerLife


def _break_in_supervision() -> None:
    WorkerLife().advance(WorkerEvent.LOADED)


def test_an_error_from_the_code_that_owns_workers_is_told_apart() -> None:
    with pytest.raises(InvalidTransition) as caught:
        _break_in_supervision()

    assert is_of_supervision(caught.value)
    assert not is_of_supervision(RuntimeError("made up"))
    assert not is_of_supervision(WorkerDied("made up").with_traceback(caught.value.__traceback__))


async def test_a_callback_of_a_connection_is_logged_and_the_server_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def breaks() -> None:
        raise RuntimeError("made-up bug of a connection")

    told: list[BaseException] = []

    with watched_loop(told.append):
        asyncio.get_running_loop().call_soon(breaks)
        await asyncio.sleep(0.01)

    assert told == []
    assert "made-up bug of a connection" in caplog.text


async def test_a_callback_of_supervision_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    told: list[BaseException] = []

    with watched_loop(told.append):
        for _ in range(3):
            asyncio.get_running_loop().call_soon(_break_in_supervision)

        await asyncio.sleep(0.01)

    assert [type(error) for error in told] == [InvalidTransition]
    assert caplog.text.count("Traceback") == 1


async def test_what_the_loop_reports_about_its_own_sockets_is_no_fault_of_the_server() -> None:
    """As when there is no descriptor left for the next connection."""
    told: list[BaseException] = []

    with pytest.raises(InvalidTransition) as caught:
        _break_in_supervision()

    with watched_loop(told.append):
        report = {"message": "socket.accept() out of system resource", "exception": caught.value}
        asyncio.get_running_loop().call_exception_handler(report)

    assert told == []


async def test_the_handler_that_was_there_before_is_put_back() -> None:
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()

    with watched_loop(lambda _: None):
        assert loop.get_exception_handler() is not before

    assert loop.get_exception_handler() is before


def test_the_last_resort_ends_a_process_whose_loop_stands_still() -> None:
    code = "import time, prism.http.self_watch as w\nw.LAST_RESORT_S = 0.2\nw.end_for_sure()\nwhile True: time.sleep(1)"
    assert subprocess.run((sys.executable, "-c", code), timeout=20, check=False).returncode == 70
