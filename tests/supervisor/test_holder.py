"""Who is in the way of a load."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipc.messages import Device
from supervisor import holder
from supervisor.held_record import publish
from supervisor.holder import Holder, find_holder, find_lock_holder, find_memory_holder
from supervisor.kernel_locks import FlockOwners
from supervisor.load_lock import LoadLock
from supervisor.memory_budget import MemoryKind
from supervisor.process_identity import ProcessIdentity, identify, own_identity
from supervisor.record_fields import encode_record
from supervisor.residents import Resident, ResidentRecord, announce
from tests.supervisor.lock_processes import server

GIB = 1 << 30


def resident(model: str, *, ram: int = 0, vram: int = 0, uuid: str | None = None) -> Resident:
    return Resident(
        model=model,
        kind="serve",
        worker_pid=1,
        device=Device.CUDA if vram else Device.CPU,
        ram_bytes=ram,
        vram_bytes=vram,
        device_uuid=uuid,
    )


def test_nobody_is_in_the_way_in_an_empty_folder(tmp_path: Path) -> None:
    assert find_holder(tmp_path) is None
    assert find_holder(tmp_path / "missing", MemoryKind.RAM) is None
    assert not (tmp_path / "missing").exists()


async def test_we_are_never_in_our_own_way(tmp_path: Path) -> None:
    # D-34: the one that checked its budget inside the lock named itself.
    with await LoadLock(tmp_path).acquire("a", 0), announce(tmp_path, resident("a", ram=GIB, vram=GIB)):
        assert find_holder(tmp_path) is None
        assert find_holder(tmp_path, MemoryKind.RAM) is None
        assert find_holder(tmp_path, MemoryKind.VRAM) is None

        # Not even when only the kernel can tell that it is us.
        (tmp_path / "load.holder.json").unlink()
        assert find_holder(tmp_path) is None


async def test_inside_our_own_lock_the_resident_that_has_the_memory_is_named(tmp_path: Path) -> None:
    with server("reside", tmp_path, "big", 8 * GIB, 0) as other:
        assert other.hear() == "resident"

        with await LoadLock(tmp_path).acquire("a", 0):
            assert find_holder(tmp_path, MemoryKind.RAM) == Holder(other.pid, "big")
            assert find_holder(tmp_path, MemoryKind.VRAM) is None
            assert find_holder(tmp_path) is None


def test_who_holds_the_lock_goes_before_who_has_the_memory(tmp_path: Path) -> None:
    with server("reside", tmp_path, "big", 8 * GIB, 0) as resting, server("hold", tmp_path, "new") as loading:
        assert (resting.hear(), loading.hear()) == ("resident", "held")
        assert find_holder(tmp_path, MemoryKind.RAM) == Holder(loading.pid, "new")

        loading.nod()
        assert loading.hear() == "released"
        assert find_holder(tmp_path, MemoryKind.RAM) == Holder(resting.pid, "big")

        resting.kill()
        assert find_holder(tmp_path, MemoryKind.RAM) is None


def test_most_of_the_memory_that_is_missing_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    residents = [
        resident("ram", ram=9 * GIB),
        resident("first gpu", ram=2 * GIB, vram=4 * GIB, uuid="GPU-1"),
        resident("second gpu", ram=2 * GIB, vram=8 * GIB, uuid="GPU-2"),
        resident("some gpu", ram=GIB, vram=5 * GIB),
    ]
    put_residents(monkeypatch, residents)

    assert find_memory_holder(tmp_path, MemoryKind.RAM) == Holder(100, "ram")
    assert find_memory_holder(tmp_path, MemoryKind.VRAM) == Holder(102, "second gpu")
    assert find_memory_holder(tmp_path, MemoryKind.VRAM, "GPU-2") == Holder(102, "second gpu")
    assert find_memory_holder(tmp_path, MemoryKind.VRAM, "GPU-1") == Holder(103, "some gpu")
    put_residents(monkeypatch, residents[:3])
    assert find_memory_holder(tmp_path, MemoryKind.VRAM, "GPU-1") == Holder(101, "first gpu")
    assert find_memory_holder(tmp_path, MemoryKind.VRAM, "GPU-3") is None


def put_residents(monkeypatch: pytest.MonkeyPatch, residents: list[Resident]) -> None:
    own = own_identity()
    records = tuple(
        ResidentRecord(front=replace(own, pid=100 + number), resident=resident, created="now")
        for number, resident in enumerate(residents)
    )
    monkeypatch.setattr(holder, "list_residents", lambda state_dir: records)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from(["GPU-1", "GPU-2", None]))))
def test_the_named_one_takes_some_and_nobody_takes_more(sizes: list[tuple[int, int, str | None]]) -> None:
    residents = [resident(str(number), ram=ram, vram=vram, uuid=uuid) for number, (ram, vram, uuid) in enumerate(sizes)]

    with pytest.MonkeyPatch.context() as patch:
        put_residents(patch, residents)
        on_ram = find_memory_holder(Path("/"), MemoryKind.RAM)
        on_gpu = find_memory_holder(Path("/"), MemoryKind.VRAM, "GPU-1")

    most_ram = max((ram for ram, _, _ in sizes), default=0)
    most_vram = max((vram for _, vram, uuid in sizes if uuid != "GPU-2"), default=0)
    assert (sizes[on_ram.pid - 100][0] if on_ram else 0) == most_ram
    assert (sizes[on_gpu.pid - 100][1] if on_gpu else 0) == most_vram
    assert on_gpu is None or sizes[on_gpu.pid - 100][2] != "GPU-2"


def test_a_held_record_that_names_somebody_else_names_nobody(tmp_path: Path) -> None:
    # D-36: what lies in a file was believed without looking whether that process lives.
    with subprocess.Popen(["sleep", "30"]) as process:
        alive = identify(process.pid)
        assert alive is not None
        assert holder_of_record(tmp_path, alive) == Holder(process.pid, "a")
        assert holder_of_record(tmp_path, replace(alive, start_ticks=1)) is None
        assert holder_of_record(tmp_path, replace(alive, boot_id="another")) is None
        assert holder_of_record(tmp_path, replace(alive, pid_namespace=1)) is None

        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert holder_of_record(tmp_path, alive) is None


def holder_of_record(state_dir: Path, identity: ProcessIdentity) -> Holder | None:
    path = state_dir / "load.holder.json"
    record = publish(path, encode_record(identity, {"model": "a"}), state_dir.stat())
    assert record is not None

    try:
        return find_lock_holder(state_dir)
    finally:
        record.remove()


def test_a_holder_in_a_container_is_named_by_the_id_that_it_has_here(tmp_path: Path) -> None:
    own = own_identity()
    inside = replace(own, pid=7, pid_namespace=own.pid_namespace + 1)

    with server("hold-like-older", tmp_path, "") as other:
        assert other.hear() == "held"
        assert holder_of_record(tmp_path, inside) == Holder(other.pid, "a")


@pytest.mark.parametrize("content", [b"", b"garbage", b'{"pid":"7"}', b'{"pid":1,"model":"stale"}', b"x" * 100_000])
def test_the_kernel_names_a_holder_whose_words_are_no_use(tmp_path: Path, content: bytes) -> None:
    with server("hold-like-older", tmp_path, "a") as other:
        assert other.hear() == "held"
        (tmp_path / "load.lock").write_bytes(content)
        assert find_lock_holder(tmp_path) == Holder(other.pid, None)


def test_words_are_believed_only_when_the_kernel_names_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["sleep", "30"]) as process:
        (tmp_path / "load.lock").write_text(json.dumps({"pid": process.pid, "model": "phi", "time": 1.5}))
        answers = {
            FlockOwners(certain=frozenset({process.pid})): Holder(process.pid, "phi"),
            FlockOwners(possible=frozenset({process.pid, 1})): Holder(process.pid, "phi"),
            FlockOwners(possible=frozenset({1})): None,
            FlockOwners(): None,
            FlockOwners(certain=frozenset({1}), possible=frozenset({process.pid})): Holder(1, None),
            FlockOwners(certain=frozenset({os.getpid()})): None,
        }

        for owners, expected in answers.items():
            monkeypatch.setattr(holder, "flock_owners", lambda file, owners=owners: owners)
            assert find_lock_holder(tmp_path) == expected

        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        dead = FlockOwners(certain=frozenset({process.pid}))
        monkeypatch.setattr(holder, "flock_owners", lambda file: dead)
        assert find_lock_holder(tmp_path) is None


@pytest.mark.parametrize("make", ["pipe", "link", "folder"])
def test_a_lock_path_that_is_no_file_names_nobody(tmp_path: Path, make: str) -> None:
    path = tmp_path / "load.lock"

    match make:
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to("/dev/zero")
        case _:
            path.mkdir()

    assert find_lock_holder(tmp_path) is None
