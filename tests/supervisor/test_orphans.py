"""Workers that outlive their server: known by a lock that they hold themselves, named, ended where they can be, and never mistaken."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ipc.messages import DeviceChoice
from supervisor import orphans
from supervisor.gpu_report import GpuDevice
from supervisor.holder import Holder, find_memory_holder
from supervisor.memory_budget import MemoryKind
from supervisor.orphans import Reaper, list_orphans
from supervisor.placement import Placement
from supervisor.process_identity import Sighting, identify, sight
from supervisor.worker_record import FOLDER_NAME, WorkerRecord
from tests.supervisor.host_talk import wait_dead

UUID = "GPU-aaaa1111-0000-0000-0000-000000000000"
GPU = GpuDevice(
    index=0,
    name="NVIDIA Test",
    uuid=UUID,
    compute_capability="8.9",
    vram_total_bytes=8 << 30,
    vram_used_bytes=0,
    vram_free_bytes=8 << 30,
)
ON_GPU = Placement(device=DeviceChoice.CUDA, gpu=GPU, vram_bytes=6 << 30)
ON_CPU = Placement(device=DeviceChoice.CPU)

# A server that records a worker, says its process id, and waits for its own end. The worker only lives, and knows no tie.
SERVER = """
import subprocess, sys
from pathlib import Path
from ipc.messages import DeviceChoice
from supervisor.placement import Placement
from supervisor.worker_record import WorkerRecord
from tests.supervisor.test_orphans import ON_CPU, ON_GPU
record = WorkerRecord.begin(Path(sys.argv[1]))
worker = subprocess.Popen(["sleep", "60"], pass_fds=(record.lock_fd,), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
record.spawned(worker.pid, "big", ON_GPU if sys.argv[2] == "gpu" else ON_CPU)
print(worker.pid, flush=True)
sys.stdin.read()
"""


@contextmanager
def serving(state_dir: Path, place: str = "cpu") -> Iterator[tuple["subprocess.Popen[str]", int]]:
    server = subprocess.Popen(
        (sys.executable, "-c", SERVER, str(state_dir), place),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert server.stdout is not None
    assert server.stdin is not None
    worker = int(server.stdout.readline())

    try:
        yield server, worker
    finally:
        end(server)
        server.stdin.close()
        server.stdout.close()

        if identify(worker) is not None:
            os.kill(worker, signal.SIGKILL)
            wait_dead(worker)


def end(server: "subprocess.Popen[str]") -> None:
    server.kill()
    server.wait()


def records(state_dir: Path) -> list[str]:
    return sorted(os.listdir(state_dir / FOLDER_NAME))


def test_a_worker_is_no_orphan_while_its_server_lives_and_is_one_from_its_end_on(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, worker):
        assert list_orphans(tmp_path) == ()
        assert records(tmp_path) == [f"{worker}.json"]
        end(server)
        (orphan,) = list_orphans(tmp_path)
        assert (orphan.worker.pid, orphan.front.pid, orphan.model) == (worker, server.pid, "big")

    assert list_orphans(tmp_path) == ()
    assert records(tmp_path) == []


def test_an_orphan_is_named_by_its_own_process_id(tmp_path: Path) -> None:
    with serving(tmp_path, "gpu") as (server, worker):
        assert find_memory_holder(tmp_path, MemoryKind.VRAM, UUID) is None
        end(server)
        assert find_memory_holder(tmp_path, MemoryKind.VRAM, UUID) == Holder(worker, "big")
        assert find_memory_holder(tmp_path, MemoryKind.VRAM) == Holder(worker, "big")
        assert find_memory_holder(tmp_path, MemoryKind.VRAM, "GPU-another") is None
        assert find_memory_holder(tmp_path, MemoryKind.RAM) == Holder(worker, "big")


def test_a_stopped_orphan_is_one_too(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, worker):
        os.kill(worker, signal.SIGSTOP)
        end(server)
        assert [orphan.worker.pid for orphan in list_orphans(tmp_path)] == [worker]


async def test_an_orphan_is_ended_also_when_it_is_stopped(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, worker):
        os.kill(worker, signal.SIGSTOP)
        end(server)
        assert await Reaper(tmp_path, 5.0).end_all() == ()
        identity = identify(worker)
        assert identity is None or sight(identity) is Sighting.DEAD


async def test_one_that_cannot_be_ended_is_told_and_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills: list[int] = []
    # No process survives SIGKILL on demand, so none is sent.
    monkeypatch.setattr(orphans, "send_kill", kills.append)

    with serving(tmp_path) as (server, worker):
        end(server)
        reaper = Reaper(tmp_path, 0.3)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert [orphan.worker.pid for orphan in await reaper.end_all()] == [worker]
        assert loop.time() - began >= 0.3
        began = loop.time()
        assert [orphan.worker.pid for orphan in await reaper.end_all()] == [worker]
        assert loop.time() - began < 0.3
        assert len(kills) == 1


async def test_a_worker_of_a_server_that_lives_is_never_ended(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, worker):
        assert await Reaper(tmp_path, 1.0).end_all() == ()
        assert identify(worker) is not None


async def test_nobody_is_ended_for_the_record_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path) as (server, worker):
        end(server)
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert [orphan.worker.pid for orphan in await Reaper(tmp_path, 1.0).end_all()] == [worker]
        assert identify(worker) is not None


@pytest.mark.parametrize("content", [b"", b"no json", b'{"pid": 1}', b"[]"])
def test_a_record_that_nobody_holds_is_cleared_and_another_is_no_harm(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / FOLDER_NAME
    folder.mkdir()
    (folder / "77.json").write_bytes(content)
    (folder / "of-somebody.txt").write_bytes(content)
    assert list_orphans(tmp_path) == ()
    assert records(tmp_path) == ["of-somebody.txt"]


def test_a_worker_that_was_never_there_leaves_nothing(tmp_path: Path) -> None:
    record = WorkerRecord.begin(tmp_path)
    assert record is not None
    assert record.lock_fd is not None
    record.withdraw()
    record.withdraw()
    assert record.lock_fd is None
    assert records(tmp_path) == []


def test_a_worker_that_has_ended_at_once_leaves_nothing(tmp_path: Path) -> None:
    record = WorkerRecord.begin(tmp_path)
    assert record is not None
    process = subprocess.Popen(["true"])
    wait_dead(process.pid)
    record.spawned(process.pid, "big", ON_CPU)
    process.wait()
    record.withdraw()
    assert records(tmp_path) == []


def test_a_folder_that_cannot_be_written_costs_only_the_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FOLDER_NAME).write_text("in the way")
    assert WorkerRecord.begin(tmp_path) is None
    assert "no record can be written" in caplog.text
    assert list_orphans(tmp_path) == ()
