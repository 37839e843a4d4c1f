"""The load lock within one process: waiting, cancelling, letting go."""

import asyncio
import contextlib
import errno
import json
import logging
import os
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisor import load_lock, state_folder
from supervisor.held_record import HeldRecord, publish, read_held
from supervisor.load_lock import LoadLock, LoadLockBusy


@contextmanager
def child_that_inherits() -> Iterator[int]:
    with subprocess.Popen(["sleep", "30"], close_fds=False) as child:
        yield child.pid
        child.kill()


def descriptors_of(pid: int, folder: Path) -> list[int]:
    """Return a process's descriptors of files in a folder, or of one file."""
    found = []

    for fd in os.listdir(f"/proc/{pid}/fd"):
        # The one that lists them is gone by now, and a young child still closes some.
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(f"/proc/{pid}/fd/{fd}").startswith(str(folder)):
                found.append(int(fd))

    return found


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_a_missing_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    state_dir = tmp_path / "home" / ".prism"

    with await LoadLock(state_dir).acquire("a", 0):
        assert stat.S_IMODE(state_dir.stat().st_mode) == 0o700
        assert stat.S_IMODE((state_dir / "load.lock").stat().st_mode) == 0o600


async def test_the_record_tells_who_loads_what_and_is_gone_afterwards(tmp_path: Path) -> None:
    with await LoadLock(tmp_path).acquire("phi-4-mini", 0):
        record = json.loads((tmp_path / "load.holder.json").read_bytes())
        assert (record["pid"], record["model"]) == (os.getpid(), "phi-4-mini")

    assert sorted(os.listdir(tmp_path)) == ["load.lock"]
    assert (tmp_path / "load.lock").read_bytes() == b""


async def test_what_a_killed_writer_left_is_cleared(tmp_path: Path) -> None:
    (tmp_path / ".load.holder.json.abandoned.tmp").write_bytes(b"half")
    (tmp_path / "load.holder.json").write_bytes(b"stale")
    (await LoadLock(tmp_path).acquire("a", 0)).release()
    assert os.listdir(tmp_path) == ["load.lock"]


async def test_release_may_be_called_again(tmp_path: Path) -> None:
    lock = LoadLock(tmp_path)
    first = await lock.acquire("a", 0)
    first.release()
    second = await lock.acquire("b", 0)
    first.release()

    with pytest.raises(LoadLockBusy):
        await lock.acquire("c", 0)

    second.release()


async def test_it_is_released_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), await LoadLock(tmp_path).acquire("a", 0):
        raise ZeroDivisionError

    (await LoadLock(tmp_path).acquire("b", 0)).release()


async def test_two_tasks_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    inside = 0

    async def load(number: int) -> None:
        nonlocal inside

        with await LoadLock(tmp_path).acquire(f"model {number}", 20):
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(load(number) for number in range(5)))


async def test_the_loop_and_its_threads_are_free_while_one_waits(tmp_path: Path) -> None:
    with await LoadLock(tmp_path).acquire("a", 0):
        threads = threading.active_count()
        waiting = asyncio.create_task(LoadLock(tmp_path).acquire("b", 20))
        ticks = 0

        async with asyncio.timeout(5):
            while ticks < 200:
                await asyncio.sleep(0)
                ticks += 1

        assert threading.active_count() == threads

    (await waiting).release()


async def test_cancelling_a_waiter_leaves_nothing_behind(tmp_path: Path) -> None:
    with await LoadLock(tmp_path).acquire("a", 0):
        before = open_descriptors()
        waiting = [asyncio.create_task(LoadLock(tmp_path).acquire("b", 20)) for _ in range(10)]
        await asyncio.sleep(load_lock.POLL_S * 2)

        for task in waiting:
            task.cancel()

        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(result) for result in results} == {asyncio.CancelledError}
        assert open_descriptors() == before

    (await LoadLock(tmp_path).acquire("c", 0)).release()


async def test_a_wait_ends_within_its_bound(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()

    with await LoadLock(tmp_path).acquire("a", 0):
        started = loop.time()

        with pytest.raises(LoadLockBusy):
            await LoadLock(tmp_path).acquire("b", 0.12)

        assert 0.12 <= loop.time() - started < 1.0


async def test_no_child_inherits_the_lock(tmp_path: Path) -> None:
    with await LoadLock(tmp_path).acquire("a", 0), child_that_inherits() as child:
        assert descriptors_of(os.getpid(), tmp_path)
        assert not descriptors_of(child, tmp_path)


async def test_a_child_that_has_not_yet_closed_the_lock_does_not_keep_it(tmp_path: Path) -> None:
    held = await LoadLock(tmp_path).acquire("a", 0)
    # What a child has between its fork and its exec: another descriptor of the same open file.
    shared = [os.dup(fd) for fd in descriptors_of(os.getpid(), tmp_path / "load.lock")]
    assert shared
    held.release()
    (await LoadLock(tmp_path).acquire("b", 0)).release()

    for fd in shared:
        os.close(fd)


async def test_a_file_that_vanishes_between_two_looks_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = state_folder.create_private

    def create_too_late(path: Path) -> int:
        monkeypatch.setattr(load_lock, "create_private", create)
        raise FileExistsError(errno.EEXIST, "there was one a moment ago", str(path))

    monkeypatch.setattr(load_lock, "create_private", create_too_late)
    (await LoadLock(tmp_path).acquire("a", 5)).release()


async def test_who_finds_its_file_replaced_while_it_takes_the_lock_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def publish_late(path: Path, content: bytes, folder: os.stat_result) -> HeldRecord | None:
        os.unlink(tmp_path / "load.lock")
        return publish(path, content, folder)

    before = open_descriptors()

    with monkeypatch.context() as patch:
        patch.setattr(load_lock, "publish", publish_late)

        with pytest.raises(LoadLockBusy):
            await LoadLock(tmp_path).acquire("a", 0)

    assert open_descriptors() == before
    assert os.listdir(tmp_path) == []
    (await LoadLock(tmp_path).acquire("b", 0)).release()


async def test_who_finds_another_one_named_while_it_takes_the_lock_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others: list[HeldRecord] = []

    def publish_second(path: Path, content: bytes, folder: os.stat_result) -> HeldRecord | None:
        record = publish(path, b"another", folder)
        assert record is not None
        others.append(record)
        return publish(path, content, folder)

    with monkeypatch.context() as patch:
        patch.setattr(load_lock, "publish", publish_second)

        with pytest.raises(LoadLockBusy):
            await LoadLock(tmp_path).acquire("a", 0)

    assert read_held(tmp_path / "load.holder.json") == b"another"
    others[0].remove()
    (await LoadLock(tmp_path).acquire("b", 0)).release()


async def test_nothing_is_kept_when_taking_the_lock_breaks_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    before = open_descriptors()

    with monkeypatch.context() as patch:
        patch.setattr(load_lock, "publish", interrupt)

        with pytest.raises(KeyboardInterrupt):
            LoadLock(tmp_path)._attempt("a")

    assert open_descriptors() == before
    assert os.listdir(tmp_path) == ["load.lock"]
    (await LoadLock(tmp_path).acquire("b", 0)).release()


async def test_the_wait_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    with await LoadLock(tmp_path).acquire("a", 0), pytest.raises(LoadLockBusy):
        await LoadLock(tmp_path).acquire("b", 0.2)

    assert [record.message for record in caplog.records if record.name == load_lock.__name__] == [
        "[load lock] another process loads a model; 'b' waits up to 0.2 s"
    ]
