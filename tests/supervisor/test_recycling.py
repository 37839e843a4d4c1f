"""A worker that takes more and more memory is replaced between requests: none is lost, and one that is sound stays."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import psutil
import pytest

from supervisor.errors import ModelLoadFailed, ServerDraining
from supervisor.host_status import HostState
from supervisor.memory_gauge import RamGauge
from supervisor.model_host import ModelHost
from supervisor.settings import RecycleSettings, SupervisorSettings
from tests.supervisor.host_talk import MakeModel, ask, pid_of, until

MIB = 1 << 20
SLOW = '@stand-in {"text": ["a", "a", "a", "a"], "delay_s": 0.05}'


class Gauge(RamGauge):
    """Workers take what a test says."""

    def __init__(self) -> None:
        self.private_mb = 100

    def private_ram(self, pid: int) -> int:
        return self.private_mb * MIB


@dataclass
class Bench:
    """A host whose workers may grow by 50 MiB."""

    host: ModelHost
    gauge: Gauge


@pytest.fixture
async def bench(settings: SupervisorSettings) -> AsyncIterator[Bench]:
    gauge = Gauge()
    recycle = RecycleSettings(growth_mb=50.0, least_age_s=0.0)
    bench = Bench(ModelHost(replace(settings, recycle=recycle), gauge), gauge)
    yield bench
    await bench.host.close()
    await asyncio.sleep(0)


async def ready(host: ModelHost, generation: int) -> None:
    await until(lambda: host.status().state is HostState.READY and host.status().generation == generation)


async def test_a_worker_that_has_grown_past_the_bound_is_replaced_and_the_new_one_is_ready(
    bench: Bench, make_model: MakeModel
) -> None:
    model = make_model()
    await ask(bench.host, model)
    worker = pid_of(bench.host)
    bench.gauge.private_mb = 151
    await ask(bench.host, model)
    await ready(bench.host, 2)

    assert not psutil.pid_exists(worker)
    assert bench.host.status().restarts == 0
    # What the new one takes is where it begins.
    await ask(bench.host, model)
    await ask(bench.host, model)
    assert bench.host.status().generation == 2


async def test_growth_within_the_bound_changes_nothing(bench: Bench, make_model: MakeModel) -> None:
    model = make_model()

    for private_mb in (100, 150, 120, 150):
        bench.gauge.private_mb = private_mb
        await ask(bench.host, model)

    assert bench.host.status().generation == 1


async def test_no_request_is_lost_and_those_who_wait_are_served_by_the_new_worker(
    bench: Bench, make_model: MakeModel
) -> None:
    model = make_model()
    await ask(bench.host, model)
    bench.gauge.private_mb = 300
    answers = await asyncio.gather(*(ask(bench.host, model, SLOW) for _ in range(5)))

    assert answers == ["aaaa"] * 5
    assert bench.host.status().generation == 2


async def test_who_waits_for_another_model_gets_it_at_once(bench: Bench, make_model: MakeModel) -> None:
    await ask(bench.host, make_model("one"))
    bench.gauge.private_mb = 300
    first = asyncio.create_task(ask(bench.host, make_model("one"), SLOW))
    await until(lambda: bench.host.status().state is HostState.BUSY)

    assert await ask(bench.host, make_model("two")) == "ok"
    assert await first == "aaaa"
    # The one that leaves is not loaded once more in between.
    assert bench.host.status().generation == 2


async def test_a_young_worker_is_not_replaced(settings: SupervisorSettings, make_model: MakeModel) -> None:
    gauge = Gauge()
    host = ModelHost(replace(settings, recycle=RecycleSettings(growth_mb=50.0, least_age_s=60.0)), gauge)
    model = make_model()

    for private_mb in (100, 5000, 9000):
        gauge.private_mb = private_mb
        await ask(host, model)

    assert host.status().generation == 1
    await host.close()


async def test_no_bound_means_never(settings: SupervisorSettings, make_model: MakeModel) -> None:
    gauge = Gauge()
    host = ModelHost(replace(settings, recycle=RecycleSettings(growth_mb=0.0, least_age_s=0.0)), gauge)
    model = make_model()

    for private_mb in (100, 5000, 9000):
        gauge.private_mb = private_mb
        await ask(host, model)

    assert host.status().generation == 1
    await host.close()


async def test_a_fresh_load_that_fails_costs_only_the_next_request_its_time(
    bench: Bench, make_model: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    await ask(bench.host, make_model())
    bench.gauge.private_mb = 300
    model = make_model(load_error={"code": "other", "message": "made-up reason"})
    assert await ask(bench.host, model) == "ok"
    await until(lambda: bench.host.status().state is HostState.IDLE and bench.host.status().generation == 2)
    await until(lambda: "is not loaded afresh" in caplog.text)
    assert "made-up reason" in caplog.text

    with pytest.raises(ModelLoadFailed, match="made-up reason"):
        await ask(bench.host, model)

    assert await ask(bench.host, make_model()) == "ok"


async def test_a_drain_ends_a_fresh_load_that_nobody_waits_for(bench: Bench, make_model: MakeModel) -> None:
    await ask(bench.host, make_model())
    bench.gauge.private_mb = 300
    await ask(bench.host, make_model(load_s=30))
    await until(lambda: bench.host.status().state is HostState.LOADING)

    assert await asyncio.wait_for(bench.host.drain(), 5) is None
    assert bench.host.status().worker_pid is None

    with pytest.raises(ServerDraining):
        await ask(bench.host, make_model())


async def test_real_memory_is_seen(settings: SupervisorSettings, make_model: MakeModel) -> None:
    """With the figures of the kernel: the stand-in takes 80 MiB more under its second request."""
    host = ModelHost(replace(settings, recycle=RecycleSettings(growth_mb=50.0, least_age_s=0.0)))
    model = make_model()
    await ask(host, model)
    await ask(host, model, '@stand-in {"text": ["a"], "at": {"token:1": "take:80"}}')
    await ready(host, 2)
    await host.close()
