"""A worker that cannot be made, a request that cannot be sent, a process that cannot be ended: each is said, and nothing is left."""

import asyncio
import os
import resource
import signal
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from supervisor.child_process import ChildProcess
from supervisor.errors import InsufficientResources, InvalidForModel, ModelLoadFailed, WorkerUnresponsive
from supervisor.host_status import HostState
from supervisor.model_host import ModelHost
from supervisor.settings import ModelRef, SupervisorSettings
from tests.supervisor.host_talk import MakeModel, ask, pid_of, until


def lowest_free_descriptor() -> int:
    fd = os.open("/dev/null", os.O_RDONLY)
    os.close(fd)
    return fd


@pytest.mark.parametrize(("prompt", "max_tokens"), [("\ud800", 4), ("a", 2**70)], ids=["lone surrogate", "huge number"])
async def test_a_request_that_cannot_be_sent_is_refused_and_the_worker_serves_on(
    host: ModelHost, make_model: MakeModel, prompt: str, max_tokens: int
) -> None:
    model = make_model()

    with pytest.raises(InvalidForModel, match="cannot be encoded"):
        await ask(host, model, prompt, max_tokens)

    assert await ask(host, model) == "ok"
    assert host.status().generation == 1


@pytest.mark.parametrize("folder", [os.fsdecode(b"/models/\xff"), "/models/\ud800"])
async def test_a_folder_whose_name_is_no_text_is_a_failed_load(host: ModelHost, folder: str) -> None:
    for _ in range(2):
        with pytest.raises(ModelLoadFailed, match="no worker can be started"):
            await ask(host, ModelRef("odd", Path(folder)))

    assert host.status().state is HostState.IDLE


async def test_a_runtime_folder_that_is_gone_or_too_long_is_a_failed_load(
    settings: SupervisorSettings, make_model: MakeModel, tmp_path: Path
) -> None:
    for folder in (tmp_path / "nowhere", tmp_path / ("x" * 100)):
        host = ModelHost(replace(settings, runtime_dir=folder))

        with pytest.raises(ModelLoadFailed, match="no worker can be started"):
            await ask(host, make_model())

        await host.close()


async def test_a_worker_program_that_is_not_there_is_a_failed_load(
    settings: SupervisorSettings, make_model: MakeModel
) -> None:
    host = ModelHost(replace(settings, worker_command=("/nowhere/python",)))

    with pytest.raises(ModelLoadFailed, match="No such file"):
        await ask(host, make_model())

    await host.close()


async def test_a_child_that_cannot_be_watched_is_a_failed_load(
    host: ModelHost, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> int:
        raise OSError(24, "Too many open files")

    model = make_model()

    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", refuse)

        with pytest.raises(ModelLoadFailed, match="Too many open files"):
            await ask(host, model)

    assert psutil.Process().children() == []
    assert await ask(host, model) == "ok"


async def test_a_front_without_descriptors_says_so_and_serves_when_it_has_some(
    settings: SupervisorSettings, make_model: MakeModel
) -> None:
    model = make_model()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    refused = 0

    for spare in range(16):
        host = ModelHost(settings)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free_descriptor() + spare, hard))

        try:
            await ask(host, model)
        except ModelLoadFailed as error:
            refused += 1
            assert "Too many open files" in str(error)  # noqa: PT017  # with some to spare there is no error
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        assert psutil.Process().children() == [] or host.status().worker_pid is not None
        await host.close()

    assert refused > 8
    host = ModelHost(settings)
    assert await ask(host, model) == "ok"
    await host.close()


async def test_a_worker_that_cannot_be_ended_is_said_so_until_it_is_gone(
    settings: SupervisorSettings, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = ModelHost(replace(settings, stop_grace_s=0.01, kill_wait_s=0.01))
    model = make_model()
    await ask(host, model)
    pid = pid_of(host)

    with monkeypatch.context() as patch:
        # No process survives SIGKILL on demand, so none is sent.
        patch.setattr(ChildProcess, "_signal_group", lambda _, __: None)

        with pytest.raises(WorkerUnresponsive, match="cannot be ended"):
            await host.unload()

    assert host.status().state is HostState.DEGRADED
    assert psutil.pid_exists(pid)

    for _ in range(2):
        # It holds its memory: nothing is loaded beside it.
        with pytest.raises(InsufficientResources, match="cannot be ended"):
            await ask(host, make_model("other"))

    os.kill(pid, signal.SIGKILL)
    await until(lambda: host.status().state is HostState.IDLE)
    assert not psutil.pid_exists(pid)
    assert await ask(host, make_model("other")) == "ok"
    await host.close()


async def test_a_worker_that_ends_after_its_host_disturbs_nobody(
    settings: SupervisorSettings,
    make_model: MakeModel,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = ModelHost(replace(settings, stop_grace_s=0.01, kill_wait_s=0.01))
    await ask(host, make_model())
    pid = pid_of(host)

    with monkeypatch.context() as patch:
        patch.setattr(ChildProcess, "_signal_group", lambda _, __: None)
        await host.close()

    caplog.clear()
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not psutil.pid_exists(pid))
    await asyncio.sleep(0.01)
    assert caplog.records == []
