"""A process that waits for the next load, with the stand-in worker: real processes, real pipes."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from supervisor.errors import InsufficientResources, ModelLoadFailed
from supervisor.memory_gauge import RamGauge
from supervisor.model_host import ModelHost
from supervisor.settings import LoadLockSettings, MemorySettings, ModelRef, SpareSettings, SupervisorSettings
from supervisor.spare_keeper import SpareKeeper
from supervisor.spare_worker import SpareWorker
from supervisor.worker_environment import worker_environment
from tests.conftest import STAND_IN
from tests.supervisor.host_talk import MakeModel, ask, kill_and_wait_dead, pid_of, until, wait_dead

AT_ONCE = SpareSettings(is_on=True, after_load_s=0.0)


class Gauge(RamGauge):
    """A machine with as much main memory as a test says."""

    def __init__(self) -> None:
        self.ram_bytes = 1 << 40
        self.private_bytes: dict[int, int] = {}

    def available_ram(self) -> int:
        return self.ram_bytes

    def private_ram(self, pid: int) -> int:
        return self.private_bytes.get(pid, 0)


@pytest.fixture
def settings(settings: SupervisorSettings, tmp_path: Path) -> SupervisorSettings:
    return replace(settings, spare=AT_ONCE, load_lock=LoadLockSettings(state_dir=tmp_path / "state"))


OpenHost = Callable[..., ModelHost]


@pytest.fixture
async def open_host() -> AsyncIterator[OpenHost]:
    """Return a function that opens a host, which is closed at the end."""
    hosts: list[ModelHost] = []

    def open_one(settings: SupervisorSettings, gauge: RamGauge | None = None) -> ModelHost:
        hosts.append(ModelHost(settings, gauge))
        return hosts[-1]

    yield open_one

    for host in hosts:
        await host.close()


@pytest.fixture
async def keeper(settings: SupervisorSettings) -> AsyncIterator[SpareKeeper]:
    keeper = SpareKeeper(settings, RamGauge())
    yield keeper
    await keeper.wait_closed()


def others(host: ModelHost) -> list[int]:
    """Return our children that are not the resident worker; zombies are none."""
    children = psutil.Process().children()
    return [
        child.pid
        for child in children
        if child.status() != psutil.STATUS_ZOMBIE and child.pid != host.status().worker_pid
    ]


async def spare_of(host: ModelHost) -> int:
    await until(lambda: len(others(host)) == 1)
    return others(host)[0]


def drafts(settings: SupervisorSettings) -> list[str]:
    """Return the files of records that are not published."""
    assert settings.load_lock.state_dir is not None
    return [path.name for path in (settings.load_lock.state_dir / "workers").glob(".*")]


async def test_the_next_load_uses_the_process_that_waits(host: ModelHost, make_model: MakeModel) -> None:
    one, two = make_model("one"), make_model("two")
    await ask(host, one)
    first, spare = pid_of(host), await spare_of(host)

    assert await ask(host, two) == "ok"
    assert pid_of(host) == spare
    assert not psutil.pid_exists(first)
    assert host.status().generation == 2
    assert await spare_of(host) != spare


async def test_the_worker_that_a_spare_became_has_a_record_as_any_other(
    host: ModelHost, make_model: MakeModel, settings: SupervisorSettings
) -> None:
    assert settings.load_lock.state_dir is not None
    folder = settings.load_lock.state_dir / "workers"
    await ask(host, make_model("one"))
    await spare_of(host)
    # The spare has no model, so others are told nothing of it.
    assert [path.name for path in folder.glob("*.json")] == [f"{pid_of(host)}.json"]

    await ask(host, make_model("two"))
    assert [path.name for path in folder.glob("*.json")] == [f"{pid_of(host)}.json"]
    assert b'"two"' in (folder / f"{pid_of(host)}.json").read_bytes()
    held = [os.readlink(f"/proc/{pid_of(host)}/fd/{fd}") for fd in os.listdir(f"/proc/{pid_of(host)}/fd")]
    assert any(target.startswith(str(folder)) for target in held)


async def test_after_a_kill_the_spare_serves_the_next_request(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model()
    await ask(host, model)
    spare = await spare_of(host)
    kill_and_wait_dead(pid_of(host))

    assert await ask(host, model) == "ok"
    assert pid_of(host) == spare


async def test_an_unload_ends_the_worker_of_the_model_and_the_spare_serves_the_next_load(
    host: ModelHost, make_model: MakeModel
) -> None:
    model = make_model()
    await ask(host, model)
    worker, spare = pid_of(host), await spare_of(host)
    report = await host.unload()

    assert report.model_id == model.model_id
    assert not psutil.pid_exists(worker)
    assert host.status().worker_pid is None
    assert others(host) == [spare]
    assert await ask(host, model) == "ok"
    assert pid_of(host) == spare


async def test_a_spare_that_died_costs_the_next_load_nothing(host: ModelHost, make_model: MakeModel) -> None:
    model = make_model()
    await ask(host, model)
    spare = await spare_of(host)
    os.kill(spare, signal.SIGKILL)
    await until(lambda: not psutil.pid_exists(spare))
    await host.unload()

    assert await ask(host, model) == "ok"
    assert host.status().restarts == 0
    assert pid_of(host) != spare


async def test_a_spare_whose_death_was_not_told_yet_is_replaced_by_a_new_process(
    host: ModelHost, make_model: MakeModel, settings: SupervisorSettings
) -> None:
    model = make_model()
    await ask(host, model)
    spare = await spare_of(host)
    await host.unload()
    stopped = asyncio.create_task(ask(host, model))
    # Dead before the load begins, and no turn of the loop between in which it could be reaped.
    kill_and_wait_dead(spare)

    assert await stopped == "ok"
    assert host.status().restarts == 0
    assert host.status().generation == 2
    assert pid_of(host) != spare


async def test_one_that_no_longer_reads_is_ended_and_the_load_goes_on(
    settings: SupervisorSettings, make_model: MakeModel, tmp_path: Path, open_host: OpenHost
) -> None:
    deaf = tmp_path / "deaf.py"
    deaf.write_text(
        "import os, runpy, signal, sys\n"
        "sys.path.insert(0, os.environ['ROOT'])\n"
        "if '--parent-pid' in sys.argv:\n"
        "    os.closerange(3, 100)\n"
        "    print('deaf', flush=True)\n"
        "    signal.pause()\n"
        "from tests.stand_in_worker import main\n"
        "main(sys.argv[1:])\n".replace("os.environ['ROOT']", repr(str(Path(__file__).parents[2])))
    )
    host = open_host(replace(settings, worker_command=(sys.executable, str(deaf))))
    await ask(host, make_model("one"))
    spare = await spare_of(host)
    await until(lambda: len(os.listdir(f"/proc/{spare}/fd")) == 3)

    assert await ask(host, make_model("two")) == "ok"
    assert pid_of(host) != spare
    await until(lambda: not psutil.pid_exists(spare))


async def test_a_spare_that_cannot_start_is_tried_once_for_each_load(
    settings: SupervisorSettings, make_model: MakeModel, tmp_path: Path, open_host: OpenHost
) -> None:
    tries = tmp_path / "tries"
    script = f'case "$*" in *--parent-pid*) echo $$ >> {tries}; exit 3;; esac; exec {" ".join(STAND_IN)} "$@"'
    host = open_host(replace(settings, worker_command=("/bin/sh", "-c", script, "sh")))
    model = make_model()

    for load in (1, 2, 3):
        assert await ask(host, model) == "ok"
        await until(lambda load=load: tries.exists() and len(tries.read_text().split()) == load)  # type: ignore[misc]
        await until(lambda: others(host) == [])
        assert await ask(host, model) == "ok"
        await host.unload()

    assert len(tries.read_text().split()) == 3
    assert host.status().restarts == 0


async def test_a_load_that_fails_makes_no_spare(host: ModelHost, make_model: MakeModel) -> None:
    with pytest.raises(ModelLoadFailed):
        await ask(host, make_model("bad", load_error={"code": "bad_model", "message": "made up"}))

    await asyncio.sleep(0.05)
    assert others(host) == []


async def test_no_spare_is_made_while_a_load_goes_on(
    settings: SupervisorSettings, make_model: MakeModel, open_host: OpenHost, tmp_path: Path
) -> None:
    os.mkfifo(gate := tmp_path / "gate")
    host = open_host(replace(settings, spare=SpareSettings(is_on=True, after_load_s=0.05)))
    await ask(host, make_model("one"))
    slow = asyncio.create_task(ask(host, make_model("two", at={"load": f"gate:{gate}"})))
    await until(lambda: host.status().generation == 2)
    await asyncio.sleep(0.2)
    assert [child.pid for child in psutil.Process().children()] == [pid_of(host)]

    # Blocks no longer than until the worker has come there.
    os.close(os.open(gate, os.O_WRONLY))
    await slow
    await spare_of(host)


async def test_a_server_without_spares_makes_none(
    settings: SupervisorSettings, make_model: MakeModel, open_host: OpenHost
) -> None:
    host = open_host(replace(settings, spare=SpareSettings(is_on=False, after_load_s=0.0)))
    await ask(host, make_model())
    await asyncio.sleep(0.05)
    assert others(host) == []


async def test_a_drain_ends_the_spare_before_it_is_done(
    host: ModelHost, make_model: MakeModel, settings: SupervisorSettings
) -> None:
    await ask(host, make_model())
    spare = await spare_of(host)
    await host.drain()

    assert not psutil.pid_exists(spare)
    assert psutil.Process().children() == []
    assert drafts(settings) == []


async def test_a_close_in_the_moment_before_a_spare_is_made_makes_none(
    settings: SupervisorSettings, make_model: MakeModel, open_host: OpenHost
) -> None:
    host = open_host(replace(settings, spare=SpareSettings(is_on=True, after_load_s=0.05)))
    await ask(host, make_model())
    await host.close()
    await asyncio.sleep(0.1)
    assert psutil.Process().children() == []


async def test_a_stopped_spare_is_killed_too(host: ModelHost, make_model: MakeModel) -> None:
    await ask(host, make_model())
    spare = await spare_of(host)
    os.kill(spare, signal.SIGSTOP)
    await host.close()
    assert not psutil.pid_exists(spare)


async def test_a_host_that_fails_ends_the_spare(host: ModelHost, make_model: MakeModel) -> None:
    await ask(host, make_model())
    spare = await spare_of(host)
    host.fail()
    wait_dead(spare)


async def test_many_swaps_leave_no_descriptor_and_no_file(
    host: ModelHost, make_model: MakeModel, settings: SupervisorSettings
) -> None:
    models = [make_model("one"), make_model("two")]
    await ask(host, models[1])
    await spare_of(host)
    before = len(os.listdir("/proc/self/fd"))

    for number in range(6):
        await ask(host, models[number % 2])
        await spare_of(host)

    assert len(os.listdir("/proc/self/fd")) == before
    assert len(drafts(settings)) == 1


async def test_the_spare_is_in_no_report_and_no_event(
    settings: SupervisorSettings, make_model: MakeModel, tmp_path: Path, open_host: OpenHost
) -> None:
    log = tmp_path / "events"
    host = open_host(replace(settings, event_log=log))
    await ask(host, make_model("one"))
    spare = await spare_of(host)
    assert host.status().worker_pid != spare
    assert str(spare) not in log.read_text()

    await ask(host, make_model("two"))
    assert f'"pid": {spare}' in log.read_text()


async def test_a_spare_for_another_place_is_ended(keeper: SpareKeeper, settings: SupervisorSettings) -> None:
    keeper.load_ended_well({"CUDA_VISIBLE_DEVICES": "GPU-one"})
    await until(lambda: keeper.pid is not None)
    pid = keeper.pid
    assert pid is not None

    assert keeper.take({"CUDA_VISIBLE_DEVICES": "GPU-two"}) is None
    await until(lambda: not psutil.pid_exists(pid))
    assert keeper.pid is None
    assert drafts(settings) == []


async def test_a_spare_has_the_environment_of_the_last_place_and_fits_it(keeper: SpareKeeper) -> None:
    variables: Mapping[str, str] = {"CUDA_VISIBLE_DEVICES": "GPU-one"}
    keeper.load_ended_well(variables)
    await until(lambda: keeper.pid is not None)
    pid = keeper.pid
    process = psutil.Process(pid)
    await until(lambda: process.environ() != {})
    spare = keeper.take(dict(variables))

    assert isinstance(spare, SpareWorker)
    assert spare.child.pid == pid
    assert spare.environment == {**worker_environment(), **variables}
    assert process.environ()["CUDA_VISIBLE_DEVICES"] == "GPU-one"
    assert keeper.pid is None
    keeper.discard(spare)


async def test_one_that_died_a_moment_ago_takes_no_spec_and_its_end_is_told_to_nobody_else(keeper: SpareKeeper) -> None:
    keeper.load_ended_well({})
    await until(lambda: keeper.pid is not None)
    spare = keeper.take({})
    assert spare is not None
    kill_and_wait_dead(spare.child.pid)
    told: list[int] = []

    assert not spare.give(b"a spec", "worker 1", told.append)
    assert not spare.is_given
    keeper.discard(spare)
    await spare.child.exited
    assert told == []


async def test_only_one_waits_however_many_loads_end(keeper: SpareKeeper) -> None:
    for _ in range(3):
        keeper.load_ended_well({})
        await until(lambda: keeper.pid is not None)

    assert len(psutil.Process().children()) == 1


async def test_a_spare_has_no_secret_in_its_arguments_and_a_session_of_its_own(keeper: SpareKeeper) -> None:
    keeper.load_ended_well({})
    await until(lambda: keeper.pid is not None)
    process = psutil.Process(keeper.pid)
    # The kernel sets them a moment after the spawn has returned.
    await until(lambda: process.cmdline() != [])
    *_, flag, parent, launch, _fd = process.cmdline()

    assert (flag, parent, launch) == ("--parent-pid", str(os.getpid()), "--launch-fd")
    # A session of its own, as each worker has: Ctrl+C does not reach it.
    assert os.getsid(process.pid) == process.pid


@pytest.fixture
def checked(settings: SupervisorSettings) -> SupervisorSettings:
    return replace(settings, memory=MemorySettings(ram_reserve_mb=100), spare=replace(AT_ONCE, look_s=0.01))


async def test_no_spare_is_made_when_memory_is_short(checked: SupervisorSettings) -> None:
    gauge = Gauge()
    gauge.ram_bytes = (100 << 20) - 1
    keeper = SpareKeeper(checked, gauge)
    keeper.load_ended_well({})
    await asyncio.sleep(0.05)
    assert psutil.Process().children() == []
    await keeper.wait_closed()


async def test_a_spare_is_ended_as_soon_as_memory_gets_short(checked: SupervisorSettings) -> None:
    gauge = Gauge()
    keeper = SpareKeeper(checked, gauge)
    keeper.load_ended_well({})
    await until(lambda: keeper.pid is not None)
    await asyncio.sleep(0.05)
    assert keeper.pid is not None

    gauge.ram_bytes = (100 << 20) - 1
    await until(lambda: keeper.pid is None)
    await until(lambda: psutil.Process().children() == [])
    await keeper.wait_closed()


async def test_what_the_spare_has_of_the_memory_keeps_no_model_out(
    settings: SupervisorSettings, make_model: MakeModel, open_host: OpenHost
) -> None:
    gauge = Gauge()
    host = open_host(replace(settings, memory=MemorySettings(ram_reserve_mb=0)), gauge)
    await ask(host, make_model("one"))
    spare = await spare_of(host)
    gauge.ram_bytes = 0

    with pytest.raises(InsufficientResources):
        await ask(host, make_model("two"))

    gauge.private_bytes[spare] = 1 << 40
    assert await ask(host, make_model("two")) == "ok"
    assert pid_of(host) == spare


async def test_what_no_system_starts_is_no_fault(settings: SupervisorSettings, make_model: MakeModel) -> None:
    keeper = SpareKeeper(replace(settings, worker_command=("/no/such/program",)), RamGauge())
    keeper.load_ended_well({})
    await asyncio.sleep(0.02)
    assert keeper.pid is None
    assert drafts(settings) == []
    await keeper.wait_closed()


async def test_a_model_whose_worker_cannot_be_told_leaves_no_process(host: ModelHost, make_model: MakeModel) -> None:
    await ask(host, make_model())
    spare = await spare_of(host)

    with pytest.raises(ModelLoadFailed):
        await ask(host, ModelRef("odd", Path("/tmp/\udcff")))

    await until(lambda: not psutil.pid_exists(spare))
