"""The load lock between real processes: races, deaths at any moment, files that vanish."""

import json
import os
import time
from pathlib import Path

import pytest

from supervisor.holder import Holder, find_holder, find_lock_holder
from supervisor.load_lock import LoadLock, LoadLockBusy
from tests.supervisor.lock_processes import server

PAIRS = 300


def test_of_two_that_race_exactly_one_loads_and_the_other_knows_who(tmp_path: Path) -> None:
    with server("race", tmp_path, "a") as first, server("race", tmp_path, "b") as second:
        for _ in range(PAIRS):
            first.nod()
            second.nod()
            said = first.hear(), second.hear()

            assert said in (("held", str(first.pid)), (str(second.pid), "held"))

            first.nod()
            second.nod()
            assert (first.hear(), second.hear()) == ("ready", "ready")


async def test_a_waiter_gets_the_lock_when_the_holder_lets_go(tmp_path: Path) -> None:
    with server("hold", tmp_path, "a") as other:
        assert other.hear() == "held"

        with pytest.raises(LoadLockBusy, match="PRISM_LOAD_TIMEOUT"):
            await LoadLock(tmp_path).acquire("b", 0.1)

        assert find_holder(tmp_path) == Holder(other.pid, "a")

        other.nod()
        assert other.hear() == "released"
        assert find_holder(tmp_path) is None

        (await LoadLock(tmp_path).acquire("b", 0)).release()


async def test_a_killed_holder_frees_the_lock_at_once(tmp_path: Path) -> None:
    with server("hold", tmp_path, "a") as other:
        assert other.hear() == "held"
        other.kill()
        # It is a zombie now, and its record still lies there.
        assert (tmp_path / "load.holder.json").exists()
        assert find_holder(tmp_path) is None
        started = time.monotonic()

        with await LoadLock(tmp_path).acquire("b", 5):
            assert time.monotonic() - started < 0.5
            assert json.loads((tmp_path / "load.holder.json").read_bytes())["pid"] == os.getpid()


async def test_a_stopped_holder_keeps_the_lock_and_is_named(tmp_path: Path) -> None:
    with server("hold", tmp_path, "a") as other:
        assert other.hear() == "held"
        os.kill(other.pid, 19)

        with pytest.raises(LoadLockBusy):
            await LoadLock(tmp_path).acquire("b", 0.1)

        assert find_holder(tmp_path) == Holder(other.pid, "a")


async def test_a_child_of_a_killed_holder_does_not_keep_the_lock(tmp_path: Path) -> None:
    # syncthing#10701: the parent dies, a child lives on with what it inherited.
    with server("hold-with-child", tmp_path) as other:
        child = int(other.hear())

        try:
            other.kill()
            assert find_holder(tmp_path) is None
            (await LoadLock(tmp_path).acquire("b", 2)).release()
            os.kill(child, 0)
        finally:
            os.kill(child, 9)


async def test_a_lock_file_that_is_deleted_under_its_holder_lets_no_second_one_in(tmp_path: Path) -> None:
    with server("hold", tmp_path, "a") as other:
        assert other.hear() == "held"
        (tmp_path / "load.lock").unlink()

        with pytest.raises(LoadLockBusy):
            await LoadLock(tmp_path).acquire("b", 0.2)

        assert find_holder(tmp_path) == Holder(other.pid, "a")
        other.nod()
        assert other.hear() == "released"
        (await LoadLock(tmp_path).acquire("b", 2)).release()


async def test_a_lock_file_that_is_replaced_under_its_holder_lets_no_second_one_in(tmp_path: Path) -> None:
    with server("hold", tmp_path, "a") as other:
        assert other.hear() == "held"
        (tmp_path / "new").touch()
        (tmp_path / "new").rename(tmp_path / "load.lock")

        with pytest.raises(LoadLockBusy):
            await LoadLock(tmp_path).acquire("b", 0.2)

        other.kill()
        (await LoadLock(tmp_path).acquire("b", 2)).release()


async def test_an_older_package_is_excluded_and_excludes_us(tmp_path: Path) -> None:
    with server("hold-like-older", tmp_path, "phi") as older:
        assert older.hear() == "held"

        with pytest.raises(LoadLockBusy):
            await LoadLock(tmp_path).acquire("b", 0.1)

        assert find_holder(tmp_path) == Holder(older.pid, "phi")
        older.kill()
        # What it wrote is still there, and names nobody any more.
        assert str(older.pid) in (tmp_path / "load.lock").read_text()
        assert find_holder(tmp_path) is None

        with await LoadLock(tmp_path).acquire("b", 2):
            assert find_holder(tmp_path) is None

            with server("find-holder", tmp_path) as asker:
                assert asker.hear() == str(Holder(os.getpid(), "b"))

    with await LoadLock(tmp_path).acquire("b", 2), server("hold-like-older", tmp_path, "phi") as older:
        # It waits inside flock, where the kernel's table shows it, but not as an owner.
        wait_until_blocked(older.pid)
        assert find_lock_holder(tmp_path) is None


async def test_words_that_a_killed_older_package_left_name_nobody_else(tmp_path: Path) -> None:
    (tmp_path / "load.lock").write_text(json.dumps({"pid": 1, "model": "stale", "time": 1.5}))

    # Its record cannot be written, so that only the kernel and the stale words are left.
    (tmp_path / "load.holder.json").mkdir()

    with server("hold", tmp_path, "a") as other:
        assert other.hear() == "held"
        assert find_holder(tmp_path) == Holder(other.pid, None)

    assert find_holder(tmp_path) is None


@pytest.mark.parametrize(("kills", "unlinks"), [(60, 0), (30, 100)], ids=["kills", "kills and deleted files"])
async def test_there_are_never_two_holders(tmp_path: Path, kills: int, unlinks: int) -> None:
    rounds = 500 if not unlinks else 250

    with server("stress", tmp_path, 4, rounds, kills, unlinks) as stress:
        seen = json.loads(stress.hear())

    assert seen["two_inside"] == 0
    assert seen["failed"] == 0
    # One that is killed between its mark and its count does the round again.
    assert seen["rounds"] == 4 * rounds
    assert seen["kills"] >= kills // 2

    # What the killed ones left is cleared by the next one.
    (await LoadLock(tmp_path).acquire("last", 0)).release()
    assert os.listdir(tmp_path) == ["load.lock"]


def wait_until_blocked(pid: int) -> None:
    deadline = time.monotonic() + 10

    while not any(f" {pid} " in line and "->" in line for line in Path("/proc/locks").read_text().splitlines()):
        assert time.monotonic() < deadline, "it never waited for the lock"
        time.sleep(0.01)
