"""Two servers on one state folder, as processes: one loads at a time, and each knows who is in the way."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from prism.exit_codes import ExitCode
from prism.http import serve
from prism.settings import ServeSettings
from supervisor.errors import LockUnavailable
from supervisor.load_lock import LoadLock
from supervisor.settings import ModelRef
from supervisor.state_folder import StateFault
from tests.whole.conftest import ServerProcess, Start, StartProcess

MakeModel = Callable[..., ModelRef]


async def chat(url: str, model: str = "stand-in") -> tuple[int, Any, str | None]:
    body = {"model": model, "messages": [{"role": "user", "content": "x"}]}

    async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/chat/completions", json=body) as answer:
        return answer.status, await answer.json(), answer.headers.get("Retry-After")


async def health(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/health") as answer:
        return await answer.json()


async def post(url: str, path: str) -> Any:
    async with aiohttp.ClientSession() as session, session.post(url + path) as answer:
        return await answer.json()


async def until_state(url: str, state: str) -> Any:
    async with asyncio.timeout(10):
        while (report := await health(url))["state"] != state:
            await asyncio.sleep(0.01)

    return report


def lock_holder(state: Path) -> Any:
    with contextlib.suppress(OSError, ValueError):
        return json.loads((state / "load.holder.json").read_text())

    return None


async def until_told(state: Path, server: ServerProcess) -> None:
    """Wait until the server has the load lock."""
    async with asyncio.timeout(10):
        while (record := lock_holder(state)) is None or record["pid"] != server.process.pid:
            await asyncio.sleep(0.005)


def residents(state: Path) -> dict[int, str]:
    folder = state / "residents"
    records = [json.loads(path.read_text()) for path in folder.glob("*.json")] if folder.is_dir() else []
    return {record["pid"]: record["model"] for record in records}


@contextlib.asynccontextmanager
async def loading(server: ServerProcess, state: Path, model: str) -> "AsyncIterator[asyncio.Task[Any]]":
    """A request that keeps a server loading until the block ends."""
    asking = asyncio.create_task(chat(server.base_url, model))

    try:
        await until_told(state, server)
        yield asking
    finally:
        asking.cancel()
        await asyncio.wait({asking})


async def test_of_two_loads_at_once_the_second_waits_for_the_first(
    start_process: StartProcess, make_model: MakeModel, tmp_path: Path
) -> None:
    make_model(load_s=0.5)
    first, second = await asyncio.gather(start_process(), start_process())
    before = time.monotonic()
    answers = await asyncio.gather(chat(first.base_url), chat(second.base_url))

    assert [status for status, _, _ in answers] == [200, 200]
    assert time.monotonic() - before > 1.0
    assert set(residents(tmp_path / "state")) == {first.process.pid, second.process.pid}


async def test_one_who_waits_too_long_is_told_who_loads(
    start_process: StartProcess, make_model: MakeModel, tmp_path: Path
) -> None:
    make_model("slow", load_s=30)
    make_model()
    first, second = await start_process(), await start_process(PRISM_LOAD_TIMEOUT="0.3")

    async with loading(first, tmp_path / "state", "slow"):
        status, answer, retry_after = await chat(second.base_url)

    assert (status, answer["error"]["code"], retry_after) == (503, "insufficient_resources", "30")
    assert answer["error"]["holder"] == {"pid": first.process.pid, "model": "slow"}
    # The lock is free again, since nobody wants that load any more.
    assert (await chat(second.base_url))[0] == 200


async def test_one_attempt_costs_no_time(start_process: StartProcess, make_model: MakeModel, tmp_path: Path) -> None:
    make_model("slow", load_s=30)
    make_model()
    first, second = await start_process(), await start_process(PRISM_LOAD_TIMEOUT="0")

    async with loading(first, tmp_path / "state", "slow"):
        before = time.monotonic()
        assert (await chat(second.base_url))[0] == 503
        assert time.monotonic() - before < 0.5


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_the_end_of_the_one_who_loads_frees_the_lock_at_once(
    start_process: StartProcess, make_model: MakeModel, tmp_path: Path, number: signal.Signals
) -> None:
    make_model("slow", load_s=30)
    make_model()
    first, second = await start_process(), await start_process()

    async with loading(first, tmp_path / "state", "slow"):
        waiting = asyncio.create_task(chat(second.base_url))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        before = time.monotonic()

        if number is signal.SIGTERM:
            # The first one lets a load end that somebody waits for; the second one does not.
            os.kill(first.process.pid, number)
            await until_state(first.base_url, "draining")

        os.kill(first.process.pid, number)
        assert (await waiting)[0] == 200
        assert time.monotonic() - before < 2


async def test_without_the_lock_both_load_at_once(
    start_process: StartProcess, make_model: MakeModel, tmp_path: Path
) -> None:
    make_model("slow", load_s=30)
    make_model()
    first, second = await start_process(), await start_process(PRISM_LOAD_LOCK="off")

    async with loading(first, tmp_path / "state", "slow"):
        assert (await chat(second.base_url))[0] == 200


async def test_a_drain_does_not_wait_for_the_load_of_another_server(
    start_process: StartProcess, make_model: MakeModel, tmp_path: Path
) -> None:
    make_model("slow", load_s=30)
    make_model()
    first, second = await start_process(), await start_process()

    async with loading(first, tmp_path / "state", "slow"):
        waiting = asyncio.create_task(chat(second.base_url))
        await asyncio.sleep(0.2)
        answer = await asyncio.wait_for(post(second.base_url, "/v1/drain"), 3)
        status, refused, _ = await waiting

    assert answer["drained"] is False
    assert (status, refused["error"]["code"]) == (503, "server_draining")
    assert (await asyncio.wait_for(second.finish(), 5))[0] == 0


async def test_a_client_that_leaves_while_another_server_loads_leaves_nothing(
    start_process: StartProcess, make_model: MakeModel, tmp_path: Path
) -> None:
    make_model("slow", load_s=30)
    make_model()
    first, second = await start_process(), await start_process()

    async with loading(first, tmp_path / "state", "slow"):
        leaving = asyncio.create_task(chat(second.base_url))
        await asyncio.sleep(0.2)
        leaving.cancel()
        await asyncio.wait({leaving})
        assert (await asyncio.wait_for(post(second.base_url, "/v1/unload"), 2))["unloaded"] is False

    assert (await until_state(first.base_url, "idle"))["worker"] is None
    await asyncio.sleep(0.1)
    assert lock_holder(tmp_path / "state") is None
    assert (await chat(first.base_url))[0] == 200


async def test_a_resident_model_is_announced_for_as_long_as_its_worker_lives(
    start_process: StartProcess, make_model: MakeModel, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    make_model("one")
    make_model("two")
    server = await start_process()
    assert residents(state) == {}

    for model in ("one", "two"):
        await chat(server.base_url, model)
        assert residents(state) == {server.process.pid: model}

    await post(server.base_url, "/v1/unload")
    assert residents(state) == {}
    await chat(server.base_url, "one")
    os.kill((await health(server.base_url))["worker"]["pid"], signal.SIGKILL)

    async with asyncio.timeout(5):
        while residents(state):
            await asyncio.sleep(0.01)


async def test_a_folder_that_cannot_hold_a_lock_costs_loads_and_not_the_server(
    start_process: StartProcess, make_model: MakeModel, tmp_path: Path
) -> None:
    make_model()
    (tmp_path / "file").touch()
    server = await start_process(PRISM_STATE_DIR=str(tmp_path / "file" / "state"))
    status, answer, _ = await chat(server.base_url)

    assert (status, answer["error"]["code"]) == (500, "model_load_failed")
    assert "PRISM_STATE_DIR" in answer["error"]["message"]
    # As soon as somebody repairs it, without a restart.
    (tmp_path / "file").unlink()
    assert (await chat(server.base_url))[0] == 200


async def test_a_folder_that_cannot_hold_a_lock_is_not_needed_without_the_lock(
    start_process: StartProcess, make_model: MakeModel, tmp_path: Path
) -> None:
    make_model()
    (tmp_path / "file").touch()
    server = await start_process(PRISM_STATE_DIR=str(tmp_path / "file" / "state"), PRISM_LOAD_LOCK="off")
    assert (await chat(server.base_url))[0] == 200


@pytest.mark.parametrize("reason", [StateFault.NETWORK, StateFault.NO_LOCKS])
def test_a_folder_without_locks_is_a_wrong_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reason: StateFault
) -> None:
    def refuse(_: object) -> None:
        raise LockUnavailable(reason, "there are no locks here")

    monkeypatch.setattr(LoadLock, "check", refuse)
    settings = ServeSettings(state_dir=tmp_path, model_dirs=(tmp_path,), port=0)

    assert serve.run_server(settings) == ExitCode.CONFIGURATION
    assert "there are no locks here" in capsys.readouterr().err


async def test_a_load_that_fails_frees_the_lock(start_server: Start, make_model: MakeModel, tmp_path: Path) -> None:
    make_model(at={"load": "exit:1"})
    make_model("said", load_error={"code": "other", "message": "no"})
    make_model("well")
    server = await start_server()

    for model in ("stand-in", "said"):
        body = {"model": model, "messages": [{"role": "user", "content": "x"}]}

        async with server.post("/v1/chat/completions", body) as answer:
            assert answer.status == 500

        await asyncio.sleep(0.1)
        assert lock_holder(tmp_path / "state") is None

    await server.chat("well")
    assert residents(tmp_path / "state") == {os.getpid(): "well"}


SHARED_GPU = (sys.executable, "-m", "tests.serve_on_made_up_machine")


def sized(make_model: MakeModel, name: str, size: int) -> None:
    """A model of so many bytes, none of which is written."""
    with (make_model(name, device="cuda").path / "model.onnx.data").open("wb") as file:
        file.truncate(size)


@pytest.mark.parametrize("command", ["/v1/drain", "/v1/unload"])
async def test_one_without_room_is_told_whom_to_drain_and_loads_after_that(
    start_process: StartProcess, make_model: MakeModel, command: str
) -> None:
    """The chain of the documents: B is refused with holder A, A is drained, B loads."""
    sized(make_model, "large", 6 << 30)
    sized(make_model, "other", 5 << 30)
    a = await start_process(SHARED_GPU, PRISM_DEVICE="cuda")
    b = await start_process(SHARED_GPU, PRISM_DEVICE="cuda")
    assert (await chat(a.base_url, "large"))[0] == 200
    status, answer, retry_after = await chat(b.base_url, "other")

    assert (status, answer["error"]["code"], retry_after) == (503, "insufficient_resources", "30")
    assert answer["error"]["holder"] == {"pid": a.process.pid, "model": "large"}
    assert "VRAM: " in answer["error"]["message"]
    told = await post(a.base_url, command)

    if command == "/v1/drain":
        assert told == {"drained": True, "model": "large", "exit_in_ms": 250}
    else:
        assert (told["unloaded"], told["vram_verified"]) == (True, True)
        assert told["vram_released_mb"] >= 6 * 1024

    assert (await chat(b.base_url, "other"))[0] == 200
    assert (await health(b.base_url))["active_device"] == "cuda"


async def test_auto_without_room_on_the_gpu_runs_on_the_cpu_and_says_why(
    start_process: StartProcess, make_model: MakeModel
) -> None:
    sized(make_model, "large", 6 << 30)
    a = await start_process(SHARED_GPU, PRISM_DEVICE="cuda")
    b = await start_process(SHARED_GPU)
    await chat(a.base_url, "large")
    assert (await chat(b.base_url, "large"))[0] == 200
    report = await health(b.base_url)

    assert report["active_device"] == "cpu"
    assert "VRAM: " in report["fallback_reason"]


async def test_a_swap_counts_what_the_model_that_leaves_gives_back(
    start_process: StartProcess, make_model: MakeModel
) -> None:
    sized(make_model, "large", 6 << 30)
    sized(make_model, "larger", 8 << 30)
    sized(make_model, "too-large", 11 << 30)
    server = await start_process(SHARED_GPU, PRISM_DEVICE="cuda")

    for model, status in (("large", 200), ("larger", 200), ("too-large", 503)):
        assert (await chat(server.base_url, model))[0] == status

    assert (await health(server.base_url))["active_model"] == "larger"
