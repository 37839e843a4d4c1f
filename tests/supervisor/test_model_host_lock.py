"""The host and the load lock: what is left when clients leave, and when loads end badly."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from ipc.front_end import FrontEnd
from ipc.messages import GenerationTask, Sampling
from supervisor.errors import InsufficientResources, ModelLoadFailed
from supervisor.host_status import HostState
from supervisor.load_lock import LoadLock
from supervisor.model_host import ModelHost
from supervisor.residents import list_residents
from supervisor.settings import LoadLockSettings, ModelRef, SupervisorSettings
from supervisor.worker_state import WorkerState
from tests.supervisor.host_talk import RUDE, kill_and_wait_dead, pid_of, until

MakeModel = Callable[..., ModelRef]


async def ask(host: ModelHost, model: ModelRef) -> None:
    async with host.turn(model) as turn:
        async for _message in turn.generate(
            GenerationTask(prompt=("x",), max_tokens=4, sampling=Sampling(temperature=0.0))
        ):
            pass


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
async def locking(settings: SupervisorSettings, state_dir: Path) -> AsyncIterator[ModelHost]:
    host = ModelHost(replace(settings, load_lock=LoadLockSettings(state_dir=state_dir, timeout_s=0.2)))
    yield host
    await host.close()
    await asyncio.sleep(0)


async def assert_free(state_dir: Path) -> None:
    (await LoadLock(state_dir).acquire("next", 0)).release()


async def test_clients_that_leave_at_any_moment_leave_no_lock_and_no_record(
    locking: ModelHost, make_model: MakeModel, state_dir: Path
) -> None:
    models = [make_model("one"), make_model("two", ignore_term=True)]

    for number in range(30):
        leaving = asyncio.create_task(ask(locking, models[number % 2]))
        await asyncio.sleep(number * 0.006)
        leaving.cancel()
        await asyncio.wait({leaving})

    await locking.unload()
    assert locking.status().state is HostState.IDLE
    await assert_free(state_dir)
    assert list_residents(state_dir, includes_own=True) == ()


async def test_the_lock_is_kept_for_as_long_as_the_load_lasts(
    locking: ModelHost, make_model: MakeModel, state_dir: Path
) -> None:
    asking = asyncio.create_task(ask(locking, make_model(load_s=0.4)))

    async with asyncio.timeout(5):
        while locking.status().state is not HostState.LOADING:
            await asyncio.sleep(0.002)

    with pytest.raises(Exception, match="another process kept"):
        await LoadLock(state_dir).acquire("other", 0)

    await asking
    await assert_free(state_dir)
    (record,) = list_residents(state_dir, includes_own=True)
    assert record.resident.worker_pid == locking.status().worker_pid
    assert record.resident.ram_bytes > 0
    assert record.resident.url is None


async def test_the_record_of_a_model_says_where_its_server_answers(
    locking: ModelHost, make_model: MakeModel, state_dir: Path
) -> None:
    locking.tell_url("http://127.0.0.1:5272")
    await ask(locking, make_model())
    (record,) = list_residents(state_dir, includes_own=True)
    assert record.resident.url == "http://127.0.0.1:5272"


async def test_a_load_that_dies_or_cannot_be_started_lets_go(
    locking: ModelHost, make_model: MakeModel, state_dir: Path
) -> None:
    for model in (make_model("dies", at={"load": "kill"}), ModelRef("odd", Path("/models/\ud800"))):
        with pytest.raises(ModelLoadFailed):
            await ask(locking, model)

        await assert_free(state_dir)

    assert list_residents(state_dir, includes_own=True) == ()


async def assert_free_when_gone(state_dir: Path, pid: int) -> None:
    """Whoever gets the lock finds the process gone, and with it all that it had of the memory."""
    with await LoadLock(state_dir).acquire("other", 5):
        assert not psutil.pid_exists(pid)


async def test_a_load_that_is_given_up_keeps_the_lock_until_its_process_is_gone(
    locking: ModelHost, make_model: MakeModel, state_dir: Path
) -> None:
    asking = asyncio.create_task(ask(locking, make_model(load_s=60, ignore_term=True)))
    await until(lambda: locking._worker is not None and locking._worker.state is WorkerState.LOADING)
    assert locking._worker is not None
    pid = locking._worker.pid
    asking.cancel()
    await asyncio.wait({asking})
    await assert_free_when_gone(state_dir, pid)


async def test_a_load_that_failed_keeps_the_lock_until_its_process_is_gone(
    settings: SupervisorSettings, make_model: MakeModel, state_dir: Path
) -> None:
    host = ModelHost(replace(settings, worker_command=RUDE, load_lock=LoadLockSettings(state_dir=state_dir)))
    asking = asyncio.create_task(ask(host, make_model(at={"load": "fail-then-stay"}, ignore_term=True)))
    await until(lambda: host._worker is not None)
    assert host._worker is not None
    pid = host._worker.pid

    with pytest.raises(ModelLoadFailed, match="rude words"):
        await asking

    await assert_free_when_gone(state_dir, pid)
    await host.close()


async def test_an_unload_in_the_moment_of_a_death_answers_when_all_is_given_back(
    locking: ModelHost, make_model: MakeModel, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_disconnected = FrontEnd.wait_disconnected

    async def wait_long(end: FrontEnd, timeout_s: float) -> None:
        await asyncio.sleep(0.1)
        await wait_disconnected(end, timeout_s)

    monkeypatch.setattr(FrontEnd, "wait_disconnected", wait_long)
    await ask(locking, make_model())
    kill_and_wait_dead(pid_of(locking))
    await locking.unload()

    assert list_residents(state_dir, includes_own=True) == ()
    assert locking.status().restarts == 1


async def test_the_resident_model_stays_when_the_lock_is_not_given(
    locking: ModelHost, make_model: MakeModel, state_dir: Path
) -> None:
    await ask(locking, make_model("one"))
    resident = locking.status().worker_pid

    with await LoadLock(state_dir).acquire("other", 0):
        with pytest.raises(InsufficientResources, match="another process kept"):
            await ask(locking, make_model("two"))

        # What is loaded needs no lock.
        await ask(locking, make_model("one"))

    assert locking.status().worker_pid == resident
