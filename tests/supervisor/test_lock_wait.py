"""While another server loads: who wants the resident model is served, the others wait in their order, and nobody for too long."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.errors import InsufficientResources, ServerDraining
from supervisor.host_status import HostState
from supervisor.load_lock import LoadLock
from supervisor.model_host import ModelHost
from supervisor.settings import LoadLockSettings, SupervisorSettings
from tests.supervisor.host_talk import MakeModel, ask, until
from tests.supervisor.lock_processes import server

MakeHost = Callable[[float], ModelHost]


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
async def make_host(settings: SupervisorSettings, state_dir: Path) -> AsyncIterator[MakeHost]:
    """Return a function that makes a host; its argument is the longest wait for another server's load."""
    hosts: list[ModelHost] = []

    def make(timeout_s: float) -> ModelHost:
        hosts.append(ModelHost(replace(settings, load_lock=LoadLockSettings(state_dir=state_dir, timeout_s=timeout_s))))
        return hosts[-1]

    yield make

    for host in hosts:
        await host.close()

    await asyncio.sleep(0)


def in_order(host: ModelHost, done: list[str], make_model: MakeModel, name: str) -> "asyncio.Task[None]":
    async def asking() -> None:
        await ask(host, make_model(name))
        done.append(name)

    return asyncio.create_task(asking())


async def test_the_resident_model_goes_on_being_served(
    make_host: MakeHost, make_model: MakeModel, state_dir: Path
) -> None:
    host = make_host(20.0)
    await ask(host, make_model("resident"))

    with await LoadLock(state_dir).acquire("other", 0):
        waiting = asyncio.create_task(ask(host, make_model("next")))
        await until(lambda: host.status().waiting == 1)

        for _ in range(5):
            assert await asyncio.wait_for(ask(host, make_model("resident")), 5) == "ok"

        assert not waiting.done()
        assert host.status().generation == 1

    assert await asyncio.wait_for(waiting, 5) == "ok"
    assert host.status().model_id == "next"


async def test_those_who_need_a_load_keep_their_order(
    make_host: MakeHost, make_model: MakeModel, state_dir: Path
) -> None:
    host = make_host(20.0)
    done: list[str] = []
    await ask(host, make_model("resident"))

    with await LoadLock(state_dir).acquire("other", 0):
        asking = []

        for number, name in enumerate(("first", "second", "resident", "third")):
            asking.append(in_order(host, done, make_model, name))
            await asyncio.sleep(0.03 * number)

        await until(lambda: done == ["resident"])
        # Long enough that each of them would have tried, had it been let.
        await asyncio.sleep(0.2)

    await asyncio.wait_for(asyncio.gather(*asking), 10)
    assert done == ["resident", "first", "second", "third"]


async def test_a_load_has_the_next_turn_once_the_lock_is_free(
    make_host: MakeHost, make_model: MakeModel, state_dir: Path
) -> None:
    """Requests for the resident model that never stop coming do not keep it out."""
    host = make_host(20.0)
    model = make_model("resident")
    await ask(host, model)
    is_over = False

    async def keep_busy() -> None:
        while not is_over:
            await ask(host, model)

    with await LoadLock(state_dir).acquire("other", 0):
        waiting = asyncio.create_task(ask(host, make_model("next")))
        await until(lambda: host.status().waiting == 1)
        busy = [asyncio.create_task(keep_busy()) for _ in range(3)]
        await asyncio.sleep(0.2)

    assert await asyncio.wait_for(waiting, 5) == "ok"
    is_over = True
    await asyncio.gather(*busy)


async def test_one_who_waits_too_long_is_told_also_while_the_resident_model_works(
    make_host: MakeHost, make_model: MakeModel, state_dir: Path
) -> None:
    host = make_host(0.4)
    await ask(host, make_model("resident"))
    loop = asyncio.get_running_loop()

    with server("hold", state_dir, "theirs") as other:
        assert other.hear() == "held"
        began = loop.time()
        waiting = asyncio.create_task(ask(host, make_model("next")))
        await until(lambda: host.status().waiting == 1)
        long = asyncio.create_task(ask(host, make_model("resident", text=["a"] * 500, delay_s=0.02), "x", 500))

        with pytest.raises(InsufficientResources, match=r"another process kept .* for 0\.4 s") as caught:
            await asyncio.wait_for(waiting, 5)

        assert 0.3 < loop.time() - began < 3.0
        assert caught.value.holder is not None
        assert (caught.value.holder.pid, caught.value.holder.model) == (other.process.pid, "theirs")
        long.cancel()
        await asyncio.wait({long})


async def test_one_whose_lock_came_free_while_our_own_model_worked_is_served_after_it(
    make_host: MakeHost, make_model: MakeModel, state_dir: Path
) -> None:
    host = make_host(0.4)
    await ask(host, make_model("resident"))

    with await LoadLock(state_dir).acquire("other", 0):
        waiting = asyncio.create_task(ask(host, make_model("next")))
        await until(lambda: host.status().waiting == 1)
        slow = '@stand-in {"text": ["a", "a", "a", "a", "a"], "delay_s": 0.2}'
        long = asyncio.create_task(ask(host, make_model("resident"), slow))
        await until(lambda: host.status().state is HostState.BUSY)

    # Its own time for the lock is over before the turn is free.
    assert await asyncio.wait_for(long, 5) == "aaaaa"
    assert await asyncio.wait_for(waiting, 5) == "ok"


async def test_a_wait_of_no_time_is_one_attempt(make_host: MakeHost, make_model: MakeModel, state_dir: Path) -> None:
    host = make_host(0.0)

    with await LoadLock(state_dir).acquire("other", 0), pytest.raises(InsufficientResources):
        await asyncio.wait_for(ask(host, make_model()), 2)


async def test_a_drain_and_an_unload_wait_for_nobodys_lock(
    make_host: MakeHost, make_model: MakeModel, state_dir: Path
) -> None:
    host = make_host(20.0)
    await ask(host, make_model("resident"))

    with await LoadLock(state_dir).acquire("other", 0):
        waiting = asyncio.create_task(ask(host, make_model("next")))
        await until(lambda: host.status().waiting == 1)
        assert (await asyncio.wait_for(host.unload(), 5)).model_id == "resident"
        assert not waiting.done()
        assert await asyncio.wait_for(host.drain(), 5) is None

        with pytest.raises(ServerDraining):
            await asyncio.wait_for(waiting, 5)


async def test_a_client_that_leaves_the_wait_leaves_nothing(
    make_host: MakeHost, make_model: MakeModel, state_dir: Path
) -> None:
    host = make_host(20.0)

    with await LoadLock(state_dir).acquire("other", 0):
        for number in range(8):
            leaving = asyncio.create_task(ask(host, make_model("next")))
            await asyncio.sleep(0.011 * number)
            leaving.cancel()
            await asyncio.wait({leaving})

        assert host.status().waiting == 0

    assert await asyncio.wait_for(ask(host, make_model("next")), 5) == "ok"
    assert host.status().generation == 1
