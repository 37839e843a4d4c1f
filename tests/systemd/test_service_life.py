"""The server as systemd sees it: what it says and when, which of its processes says it, and with which status it ends."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from supervisor.settings import ModelRef
from tests.systemd.conftest import Service, StartService
from tests.systemd.fake_systemd import FakeSystemd, Notice
from tests.systemd.serve_and_block import BLOCKED_S

MakeModel = Callable[..., ModelRef]


async def _post(url: str, path: str, body: Any = None) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.post(url + path, data=json.dumps(body or {})) as answer:
        return answer.status, await answer.text()


def _chat(url: str, **fields: Any) -> "asyncio.Task[tuple[int, str]]":
    body = {"model": "stand-in", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1000, **fields}
    return asyncio.create_task(_post(url, "/v1/chat/completions", body))


def _texts(notices: list[Notice]) -> list[str]:
    return [notice.text for notice in notices]


async def test_from_ready_to_stopping_only_the_front_speaks(
    systemd: FakeSystemd, start_service: StartService, make_model: MakeModel
) -> None:
    make_model()
    service = await start_service(NOTIFY_SOCKET=systemd.address, WATCHDOG_USEC="200000", PRISM_MODEL="stand-in")
    said = await systemd.until("STATUS=ready stand-in on cpu")
    said += await systemd.until("WATCHDOG=1")
    assert (await _chat(await service.url()))[0] == 200
    service.process.send_signal(signal.SIGTERM)
    status, output = await service.finish()
    said += systemd.waiting()
    texts = _texts(said)

    assert texts[0].startswith("READY=1\nSTATUS=")
    assert texts.count("WATCHDOG=1") >= 2
    assert [text.partition("\n")[0] for text in texts].count("STOPPING=1") == 1
    assert texts.index("STOPPING=1\nSTATUS=draining stand-in on cpu") < texts.index("EXTEND_TIMEOUT_USEC=30000000")
    assert {notice.pid for notice in said} == {service.pid}
    assert (status, "Traceback" in output) == (0, False)


async def test_a_drain_says_stopping_and_asks_for_time_while_an_answer_is_finished(
    systemd: FakeSystemd, start_service: StartService, make_model: MakeModel
) -> None:
    make_model(text=["a"] * 30, delay_s=0.02)
    service = await start_service(NOTIFY_SOCKET=systemd.address)
    url = await service.url()
    chat = _chat(url)
    await _until_busy(url)
    drain = asyncio.create_task(_post(url, "/v1/drain"))
    await systemd.until("STOPPING=1\nSTATUS=draining stand-in on cpu")
    await systemd.until("EXTEND_TIMEOUT_USEC=")

    assert not chat.done()
    assert "a" * 30 in (await chat)[1]
    assert (await drain)[0] == 200
    assert (await service.finish())[0] == 0


async def _until_busy(url: str) -> None:
    async with asyncio.timeout(10), aiohttp.ClientSession() as session:
        while (await (await session.get(f"{url}/health")).json())["state"] != "busy":
            await asyncio.sleep(0.01)


async def test_a_blocked_loop_is_silent_and_a_free_one_is_not(
    systemd: FakeSystemd, start_service: StartService
) -> None:  # F24
    interval_s = 0.1
    service = await start_service(
        ("-m", "tests.systemd.serve_and_block"),
        NOTIFY_SOCKET=systemd.address,
        WATCHDOG_USEC=str(round(interval_s * 1e6)),
    )
    await service.url()
    await systemd.until("WATCHDOG=1")
    service.process.send_signal(signal.SIGUSR1)
    await _read_until(service, b"blocked\n")
    systemd.waiting()
    # As long as several intervals, and less than the block.
    await asyncio.sleep(BLOCKED_S / 2)
    meanwhile = systemd.waiting()
    await _read_until(service, b"free\n")
    await systemd.until("WATCHDOG=1")

    assert meanwhile == []


async def _read_until(service: Service, line: bytes) -> None:
    assert service.process.stdout is not None

    async with asyncio.timeout(10):
        while await service.process.stdout.readline() != line:
            pass


async def test_a_stopped_server_is_silent_and_does_not_make_up_for_it(
    systemd: FakeSystemd, start_service: StartService
) -> None:  # F25
    service = await start_service(NOTIFY_SOCKET=systemd.address, WATCHDOG_USEC="100000")
    await systemd.until("WATCHDOG=1")
    service.process.send_signal(signal.SIGSTOP)
    await asyncio.to_thread(os.waitid, os.P_PID, service.pid, os.WSTOPPED | os.WNOWAIT)
    systemd.waiting()
    await asyncio.sleep(0.3)
    meanwhile = systemd.waiting()
    service.process.send_signal(signal.SIGCONT)
    await systemd.until("WATCHDOG=1")

    assert meanwhile == []
    assert len([text for text in _texts(systemd.waiting()) if text == "WATCHDOG=1"]) <= 1


async def test_a_dead_notify_socket_changes_nothing(start_service: StartService) -> None:
    service = await start_service(NOTIFY_SOCKET="/nowhere/notify", WATCHDOG_USEC="20000")
    assert (await _post(await service.url(), "/v1/unload"))[0] == 200
    service.process.send_signal(signal.SIGTERM)
    status, output = await service.finish()

    assert (status, output.count("systemd does not hear"), "Traceback" in output) == (0, 1, False)


class TestExitStatus:
    """systemd decides by it whether the server starts again."""

    async def test_a_drained_server_stays_down_and_listens_once_it_is_ready(
        self, systemd: FakeSystemd, start_service: StartService
    ) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]

        service = await start_service(NOTIFY_SOCKET=systemd.address, PRISM_PORT=str(port))
        await systemd.until("READY=1")

        assert (await _post(f"http://127.0.0.1:{port}", "/v1/drain"))[0] == 200
        assert (await service.finish())[0] == 0
        assert "STOPPING=1" in systemd.waiting()[-2].text

    async def test_a_taken_port_is_worth_another_try_and_was_never_ready(
        self, systemd: FakeSystemd, start_service: StartService
    ) -> None:  # F61
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            variables = {"PRISM_PORT": str(taken.getsockname()[1]), "NOTIFY_SOCKET": systemd.address}
            status, output = await (await start_service(("-m", "prism", "serve"), **variables)).finish()

        assert status == 75
        assert "is in use" in output
        assert systemd.waiting() == []

    @pytest.mark.parametrize(
        ("name", "text"),
        [("PRISM_PORT", "http"), ("NOTIFY_SOCKET", "notify"), ("PRISM_API_KEY_FILE", "/nowhere/api_key")],
    )
    async def test_settings_that_cannot_be_used_are_not(
        self, start_service: StartService, name: str, text: str
    ) -> None:
        status, output = await (await start_service(("-m", "prism", "serve"), **{name: text})).finish()

        assert status == 78
        assert name in output
        assert "Traceback" not in output


async def test_the_key_that_systemd_hands_over_is_required(start_service: StartService, tmp_path: Path) -> None:
    (tmp_path / "api_key").write_text("from-a-credential\n")
    service = await start_service(PRISM_API_KEY_FILE=str(tmp_path / "api_key"))
    url = await service.url()
    status, _ = await _post(url, "/v1/unload")

    async with (
        aiohttp.ClientSession(headers={"Authorization": "Bearer from-a-credential"}) as session,
        session.post(f"{url}/v1/unload") as answer,
    ):
        assert (status, answer.status) == (401, 200)
