"""Records that are believed only while their writer holds them."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from supervisor import held_record, state_folder
from supervisor.held_record import (
    MAX_RECORD_BYTES,
    HeldRecord,
    is_held,
    publish,
    read_held,
    remove_leftovers,
    remove_void,
)


def put(path: Path, content: bytes = b"{}") -> HeldRecord:
    record = publish(path, content, path.parent.stat())
    assert record is not None
    return record


def always(content: bytes) -> bool:
    return True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "7.json"


def test_a_record_is_read_while_it_is_held_and_gone_when_it_is_removed(path: Path) -> None:
    record = put(path, b'{"a":1}')
    assert read_held(path) == b'{"a":1}'
    assert is_held(path)
    assert record.is_in_place

    record.remove()
    record.remove()
    assert not record.is_in_place
    assert (read_held(path), is_held(path), os.listdir(path.parent)) == (None, False, [])


def test_a_record_that_nobody_holds_is_not_believed(path: Path) -> None:
    path.write_bytes(b"{}")
    assert read_held(path) is None
    assert not is_held(path)


def test_readers_do_not_take_each_other_for_the_writer(path: Path) -> None:
    path.write_bytes(b"{}")

    with path.open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        assert read_held(path) is None


@pytest.mark.parametrize("make", ["empty", "huge", "link", "pipe", "folder", "missing"])
def test_what_is_no_record_is_passed_over_without_waiting(path: Path, make: str) -> None:
    records = [put(path.with_name("real"), b"{}")]

    match make:
        case "empty":
            records.append(put(path, b""))
        case "huge":
            records.append(put(path, b"x" * (MAX_RECORD_BYTES + 1)))
        case "link":
            path.symlink_to(path.with_name("real"))
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            pass

    assert read_held(path) is None

    for record in records:
        record.remove()


def test_the_record_of_a_living_writer_is_not_replaced(path: Path) -> None:
    old = put(path, b"old")
    assert publish(path, b"new", path.parent.stat()) is None
    assert read_held(path) == b"old"
    assert os.listdir(path.parent) == [path.name]

    old.remove()
    new = put(path, b"new")
    old.remove()
    assert read_held(path) == b"new"
    new.remove()


def test_a_void_record_is_replaced(path: Path) -> None:
    path.write_bytes(b"void")
    record = put(path, b"new")
    assert read_held(path) == b"new"
    assert os.listdir(path.parent) == [path.name]
    record.remove()


def test_a_record_that_was_deleted_by_hand_does_not_take_the_next_one_along(path: Path) -> None:
    old = put(path, b"old")
    path.unlink()
    new = put(path, b"new")
    assert not old.is_in_place
    old.remove()
    assert read_held(path) == b"new"
    new.remove()


def test_of_two_who_replace_a_void_record_one_comes_too_late(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"void")
    first: list[HeldRecord] = []
    unlink = os.unlink

    def come_between(name: Path) -> None:
        unlink(name)

        if name == path and not first:
            monkeypatch.undo()
            first.append(put(path, b"first"))

    monkeypatch.setattr(os, "unlink", come_between)
    assert publish(path, b"second", path.parent.stat()) is None
    assert read_held(path) == b"first"
    first[0].remove()


@pytest.mark.parametrize("make", ["link", "pipe", "folder"])
def test_what_is_no_record_is_not_replaced(path: Path, make: str) -> None:
    target = path.with_name("precious")
    target.write_text("precious")

    match make:
        case "link":
            path.symlink_to(target)
        case "pipe":
            os.mkfifo(path)
        case _:
            path.mkdir()

    with pytest.raises(OSError):
        publish(path, b"new", path.parent.stat())

    assert target.read_text() == "precious"
    assert sorted(os.listdir(path.parent)) == [path.name, "precious"]


@pytest.mark.parametrize("call", ["write", "link", "fstat"])
def test_a_record_that_cannot_be_written_leaves_nothing_behind(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    folder = path.parent.stat()
    before = len(os.listdir("/proc/self/fd"))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)

        with pytest.raises(OSError, match="full"):
            publish(path, b"{}", folder)

    assert os.listdir(path.parent) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_write_in_parts_is_finished(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, content: write(fd, content[:3]))
    record = put(path, b"0123456789")
    assert read_held(path) == b"0123456789"
    record.remove()


def test_only_void_records_are_deleted(path: Path) -> None:
    record = put(path)
    assert not remove_void(path, always)
    assert read_held(path) == b"{}"
    record.remove()

    assert remove_void(path, always)
    path.write_bytes(b"keep")
    assert not remove_void(path, lambda content: content != b"keep")
    assert path.exists()
    assert remove_void(path, lambda content: content == b"keep")
    assert not path.exists()


def test_a_record_that_takes_the_place_of_a_void_one_is_not_deleted_with_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"void")
    new = put(path.with_name("new"))
    flock = fcntl.flock

    def replace_before_the_lock(fd: int, operation: int) -> None:
        os.rename(path.with_name("new"), path)
        flock(fd, operation)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", replace_before_the_lock)
        assert not remove_void(path, always)

    assert read_held(path) == b"{}"
    new.remove()
    assert path.exists()
    path.unlink()


@pytest.mark.parametrize("make", ["link", "pipe"])
def test_what_is_no_record_is_not_deleted(path: Path, make: str) -> None:
    os.mkfifo(path) if make == "pipe" else path.symlink_to(path.parent)
    assert not remove_void(path, always)
    assert os.path.lexists(path)


def test_what_a_dead_writer_left_is_cleared_and_a_living_ones_is_not(path: Path) -> None:
    path.with_name(".7.json.abandoned.tmp").write_bytes(b"half")
    path.with_name(".other.tmp").write_bytes(b"half")
    path.with_name("notes.tmp").write_bytes(b"mine")
    living = put(path.with_name(".7.json.living.tmp"))

    remove_leftovers(path.parent, "7.json")
    assert sorted(os.listdir(path.parent)) == [".7.json.living.tmp", ".other.tmp", "notes.tmp"]

    remove_leftovers(path.parent)
    assert sorted(os.listdir(path.parent)) == [".7.json.living.tmp", "notes.tmp"]
    remove_leftovers(path.parent / "missing")
    living.remove()


def test_a_writer_whose_new_file_is_cleared_before_it_is_locked_tries_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = state_folder.create_private
    cleared: list[Path] = []

    def create_and_lose(temporary: Path) -> int:
        fd = create(temporary)

        if len(cleared) < 2:
            cleared.append(temporary)
            remove_leftovers(temporary.parent)

        return fd

    monkeypatch.setattr(held_record, "create_private", create_and_lose)
    record = put(path, b"{}")
    assert read_held(path) == b"{}"
    assert len(cleared) == 2
    record.remove()
