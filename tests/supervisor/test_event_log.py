"""The log of events: what it holds after a life of turns and workers, and that it costs the server nothing when it cannot be written."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipc.messages import GenerationTask, Sampling
from supervisor.errors import WorkerDied
from supervisor.event_log import EventLog
from supervisor.model_host import ModelHost
from supervisor.settings import ModelRef, SupervisorSettings

MakeModel = Callable[..., ModelRef]
TASK = GenerationTask(prompt=("hello",), max_tokens=4, sampling=Sampling(temperature=0.0))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def told(path: Path) -> list[tuple[Any, ...]]:
    """Each line without what differs from run to run."""
    return [tuple(value for name, value in line.items() if name not in ("at", "pid")) for line in lines_of(path)]


async def killed_in_an_answer(host: ModelHost, model: ModelRef) -> None:
    async with host.turn(model) as turn:
        async for _ in turn.generate(TASK):
            pid = host.status().worker_pid
            assert pid is not None

            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
async def logged(settings: SupervisorSettings, tmp_path: Path) -> AsyncIterator[tuple[ModelHost, Path]]:
    path = tmp_path / "events.jsonl"
    host = ModelHost(replace(settings, event_log=path))
    yield host, path
    await host.close()
    await asyncio.sleep(0)


async def test_a_life_is_told_in_order(logged: tuple[ModelHost, Path], make_model: MakeModel) -> None:
    host, path = logged

    async with host.turn(make_model("a")) as turn:
        _ = [message async for message in turn.generate(TASK)]
        pid = host.status().worker_pid

    await host.unload()
    assert told(path) == [
        ("turn_given", "a"),
        ("turn_claimed",),
        ("started", 1, "a"),
        ("loaded", 1, 1),
        ("request_begun", 1, 1),
        ("request_ended", 1, 1, "finished:stop"),
        ("turn_released",),
        ("turn_given", None),
        ("gone", 1),
        ("ended", 1, False, "the worker of model 'a' ended with SIGTERM"),
        ("turn_released",),
    ]
    lines = lines_of(path)
    assert next(line["pid"] for line in lines if line["event"] == "started") == pid
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)


async def test_a_turn_that_is_shared_and_claimed_is_told(
    settings: SupervisorSettings, make_model: MakeModel, tmp_path: Path
) -> None:
    path = tmp_path / "events.jsonl"
    host = ModelHost(replace(settings, event_log=path, parallel=2))
    first, second = make_model("a", parallel=3), make_model("b")

    async with host.turn(first), host.turn(first):
        pass

    await host.preload(second)
    await host.close()
    assert told(path)[:8] == [
        ("turn_given", "a"),
        ("turn_claimed",),
        ("started", 1, "a"),
        ("loaded", 1, 2),
        ("turn_shared", "a", 2),
        ("turn_given", "a"),
        ("turn_released",),
        ("turn_released",),
    ]
    swap = told(path)[8:]
    assert swap.index(("turn_claimed",)) < swap.index(("gone", 1)) < swap.index(("started", 2, "b"))


async def test_a_death_under_a_request_is_its_end(logged: tuple[ModelHost, Path], make_model: MakeModel) -> None:
    host, path = logged

    with pytest.raises(WorkerDied):
        await killed_in_an_answer(host, make_model("a", delay_s=0.05))

    assert ("request_begun", 1, 1) in told(path)
    ended = next(line for line in lines_of(path) if line["event"] == "ended")
    assert ended["is_fault"] is True
    assert "SIGKILL" in ended["reason"]
    assert not [line for line in told(path) if line[0] == "request_ended"]


async def test_a_load_that_fails_is_told(logged: tuple[ModelHost, Path], make_model: MakeModel) -> None:
    host, path = logged
    model = make_model("bad", load_error={"code": "bad_model", "message": "m"})

    with pytest.raises(Exception, match="m"):
        await host.preload(model)

    assert ("load_failed", 1, "bad_model") in told(path)


async def test_a_worker_that_cannot_be_spawned_fails_its_load(
    settings: SupervisorSettings, make_model: MakeModel, tmp_path: Path
) -> None:
    path = tmp_path / "events.jsonl"
    host = ModelHost(replace(settings, event_log=path, worker_command=("/nowhere/worker",)))

    with pytest.raises(Exception, match="no worker"):
        await host.preload(make_model("a"))

    await host.close()
    assert ("load_failed", 1, "other") in told(path)
    assert not [line for line in told(path) if line[0] == "started"]


def test_lines_are_added_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"

    for number in range(2):
        log = EventLog(path)
        log.write("gone", worker=number)
        log.close()

    assert told(path) == [("gone", 0), ("gone", 1)]
    assert path.stat().st_mode & 0o077 == 0


def test_a_file_that_cannot_be_opened_costs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog(tmp_path / "nowhere" / "events.jsonl")
    log.write("gone", worker=1)
    log.close()
    assert len(caplog.records) == 1


def test_a_disk_that_is_full_ends_the_log_with_one_word(caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog(Path("/dev/full"))
    log.write("gone", worker=1)
    log.write("gone", worker=2)
    assert [record.getMessage() for record in caplog.records] == [
        "events are no longer written to /dev/full: No space left on device"
    ]


def test_no_path_is_no_log() -> None:
    log = EventLog(None)
    log.write("gone", worker=1)
    log.close()
