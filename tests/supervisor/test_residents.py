"""Which servers have a model in memory, and which only seem to."""

import contextlib
import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ipc.messages import Device
from supervisor.held_record import HeldRecord, publish
from supervisor.process_identity import identify, own_identity
from supervisor.record_fields import encode_record
from supervisor.residents import MAX_RECORDS, Resident, announce, list_residents
from tests.supervisor.lock_processes import server

GIB = 1 << 30
RESIDENT = Resident(
    model="phi-4-mini",
    kind="serve",
    worker_pid=4720,
    device=Device.CUDA,
    device_uuid="GPU-1",
    ram_bytes=GIB,
    vram_bytes=4 * GIB,
    url="http://127.0.0.1:5272",
)
FIELDS: dict[str, str | int | None] = {
    "kind": "serve",
    "model": "a",
    "worker_pid": 1,
    "device": "cpu",
    "ram_bytes": GIB,
    "vram_bytes": 0,
    "created": "2026-01-01T00:00:00+00:00",
}


def names(state_dir: Path) -> list[str]:
    return sorted(os.listdir(state_dir / "residents"))


def put(state_dir: Path, name: str, content: bytes) -> HeldRecord:
    """Publish a record of any content, which this process then holds."""
    folder = state_dir / "residents"
    folder.mkdir(exist_ok=True)
    record = publish(folder / name, content, folder.stat())
    assert record is not None
    return record


def test_our_own_record_is_whole_and_told_only_when_asked_for(tmp_path: Path) -> None:
    with announce(tmp_path, RESIDENT) as announcement:
        assert announcement.is_published
        assert names(tmp_path) == [f"{os.getpid()}.json"]
        assert list_residents(tmp_path) == ()
        (record,) = list_residents(tmp_path, includes_own=True)
        assert (record.front, record.resident) == (own_identity(), RESIDENT)

    assert not announcement.is_published
    assert names(tmp_path) == []
    announcement.withdraw()


def test_without_a_folder_there_is_nobody(tmp_path: Path) -> None:
    assert list_residents(tmp_path / "missing") == ()
    assert not (tmp_path / "missing").exists()


def test_others_are_seen_while_they_live_and_in_the_order_of_their_ids(tmp_path: Path) -> None:
    with server("reside", tmp_path, "a", GIB, 0) as first, server("reside", tmp_path, "b", GIB, GIB, "GPU-1") as second:
        assert (first.hear(), second.hear()) == ("resident", "resident")
        found = [(record.front.pid, record.resident.model) for record in list_residents(tmp_path)]
        assert found == sorted([(first.pid, "a"), (second.pid, "b")])
        assert {record.resident.device for record in list_residents(tmp_path)} == {Device.CPU, Device.CUDA}

        first.kill()
        # A zombie: dead, though a signal still reaches it.
        os.kill(first.pid, 0)
        assert [record.front.pid for record in list_residents(tmp_path)] == [second.pid]
        assert names(tmp_path) == [f"{second.pid}.json"]

        second.nod()
        second.process.wait()
        assert names(tmp_path) == []


def test_a_record_that_nobody_holds_is_not_believed_even_of_a_living_process(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "30"]) as process:
        identity = identify(process.pid)
        assert identity is not None
        put(tmp_path, "1.json", encode_record(identity, FIELDS)).remove()
        (tmp_path / "residents" / f"{process.pid}.json").write_bytes(encode_record(identity, FIELDS))
        assert list_residents(tmp_path) == ()
        process.kill()


def test_a_held_record_of_another_process_than_the_one_it_names_is_not_believed(tmp_path: Path) -> None:
    own = own_identity()

    with subprocess.Popen(["sleep", "30"]) as process:
        alive = identify(process.pid)
        assert alive is not None
        wrong = {
            "reused": replace(alive, start_ticks=alive.start_ticks + 5),
            "rebooted": replace(alive, boot_id="another"),
            "contained": replace(alive, pid_namespace=own.pid_namespace + 1),
        }
        records = [
            put(tmp_path, f"{number}.json", encode_record(identity, FIELDS))
            for number, identity in enumerate(wrong.values())
        ]
        assert list_residents(tmp_path) == ()

        records.append(put(tmp_path, "9.json", encode_record(alive, FIELDS)))
        assert [record.front for record in list_residents(tmp_path)] == [alive]
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert list_residents(tmp_path) == ()

    for record in records:
        record.remove()


@pytest.mark.parametrize(
    "change",
    [
        {"device": "tpu"},
        {"device": 1},
        {"model": ""},
        {"model": None},
        {"ram_bytes": -1},
        {"vram_bytes": "7"},
        {"vram_bytes": True},
        {"worker_pid": 1.5},
        {"url": 5},
        {"created": None},
        {"pid": 0},
    ],
)
def test_a_record_with_a_bad_field_is_passed_over(tmp_path: Path, change: dict[str, object]) -> None:
    good = json.loads(encode_record(own_identity(), FIELDS))
    record = put(tmp_path, "8.json", json.dumps(good).encode())
    assert len(list_residents(tmp_path, includes_own=True)) == 1
    record.remove()

    record = put(tmp_path, "8.json", json.dumps(good | change).encode())
    assert list_residents(tmp_path, includes_own=True) == ()
    record.remove()


def test_a_field_of_a_newer_server_is_passed_over(tmp_path: Path) -> None:
    record = put(tmp_path, "8.json", encode_record(own_identity(), {**FIELDS, "mood": "good"}))
    assert len(list_residents(tmp_path, includes_own=True)) == 1
    record.remove()


def test_garbage_is_passed_over_and_only_what_is_ours_is_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "residents"
    folder.mkdir()
    (folder / "1.json").write_bytes(b"\xff garbage")
    (folder / "2.json").write_bytes(b"x" * 10_000_000)
    (folder / "3.json").symlink_to(tmp_path)
    os.mkfifo(folder / "4.json")
    (folder / "5.json").mkdir()
    (folder / "notes.json").write_text("mine")
    (folder / ".5.json.abc.tmp").write_text("half")
    started = time.monotonic()

    assert list_residents(tmp_path) == ()
    assert time.monotonic() - started < 1
    assert names(tmp_path) == ["3.json", "4.json", "5.json", "notes.json"]


def test_the_record_of_a_dead_process_with_our_id_is_replaced(tmp_path: Path) -> None:
    own = own_identity()
    put(tmp_path, "0.json", b"{}").remove()
    path = tmp_path / "residents" / f"{own.pid}.json"
    path.write_bytes(encode_record(replace(own, start_ticks=1), FIELDS))

    with announce(tmp_path, RESIDENT):
        assert names(tmp_path) == [path.name]
        assert json.loads(path.read_bytes())["model"] == RESIDENT.model


def test_a_living_server_with_our_id_keeps_its_record(tmp_path: Path) -> None:
    # stellar-core#883: in containers every process is number 1 or 7.
    own = own_identity()
    theirs = encode_record(replace(own, pid_namespace=own.pid_namespace + 1), FIELDS)
    record = put(tmp_path, f"{own.pid}.json", theirs)

    with announce(tmp_path, RESIDENT) as announcement:
        assert announcement.is_published
        assert len(names(tmp_path)) == 2
        assert [found.resident for found in list_residents(tmp_path, includes_own=True)] == [RESIDENT]
        assert record.is_in_place

    assert names(tmp_path) == [f"{own.pid}.json"]
    record.remove()


def test_two_announcements_of_one_process_do_not_hurt_each_other(tmp_path: Path) -> None:
    old = announce(tmp_path, RESIDENT)
    new = announce(tmp_path, replace(RESIDENT, model="next"))
    old.withdraw()
    assert [record.resident.model for record in list_residents(tmp_path, includes_own=True)] == ["next"]
    new.withdraw()
    assert names(tmp_path) == []


@pytest.mark.parametrize("make", ["file", "link"])
def test_a_folder_that_cannot_be_used_costs_nobody_a_model(
    tmp_path: Path, make: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "residents"
    path.touch() if make == "file" else path.symlink_to(tmp_path / "elsewhere")

    with announce(tmp_path, RESIDENT) as announcement:
        assert not announcement.is_published
        assert list_residents(tmp_path) == ()

    assert "no record can be written" in caplog.text
    assert os.listdir(tmp_path / "elsewhere") == []


def inherited_files(pid: int) -> list[str]:
    found = []

    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))

    return found


def test_no_child_inherits_the_record(tmp_path: Path) -> None:
    # syncthing#10701: what a child inherits outlives the parent.
    announcement = announce(tmp_path, RESIDENT)
    path = tmp_path / "residents" / f"{os.getpid()}.json"

    with subprocess.Popen(["sleep", "30"], close_fds=False) as child:
        announcement.withdraw()
        # Deleted, and void at once: the child holds nothing that could keep its lock.
        assert not [name for name in inherited_files(child.pid) if path.name in name]
        child.kill()


def test_a_flood_of_records_is_cut(tmp_path: Path) -> None:
    folder = tmp_path / "residents"
    folder.mkdir()

    for number in range(MAX_RECORDS + 50):
        (folder / f"{number:06}.json").write_bytes(b"{}")

    list_residents(tmp_path)
    assert len(names(tmp_path)) == 50


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as another user")
def test_a_record_that_another_user_must_not_read_is_passed_over(shared_dir: Path) -> None:
    with server("reside", shared_dir, "a", GIB, 0) as theirs:
        assert theirs.hear() == "resident"

        with server("list", shared_dir, user=65534) as asker:
            assert asker.hear() == f"[({theirs.pid}, 'a')]"

        (shared_dir / "residents" / f"{theirs.pid}.json").chmod(0o600)

        with server("list", shared_dir, user=65534) as asker:
            assert asker.hear() == "[]"

        assert len(list_residents(shared_dir)) == 1
