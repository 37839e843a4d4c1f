"""The load lock in folders that are shared, full, read-only, or no use at all."""

import contextlib
import errno
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisor import load_lock, state_folder
from supervisor.holder import find_holder
from supervisor.load_lock import LoadLock, LoadLockBusy, LockUnavailable
from supervisor.state_folder import StateFault
from tests.supervisor.lock_processes import server

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as another user")


@pytest.fixture
def strict_umask() -> Iterator[None]:
    """The umask of a hardened service."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """Put a small file system of its own on a folder."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False)

    if done.returncode:
        pytest.skip("this user may not mount")

    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def mounted_kinds() -> set[str]:
    return {line.split()[2] for line in Path("/proc/mounts").read_text().splitlines()}


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(bytes(512)):
            pass


def remount_read_only(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)


async def refusal(state_dir: Path) -> LockUnavailable:
    with pytest.raises(LockUnavailable, match="PRISM_LOAD_LOCK=off") as caught:
        await LoadLock(state_dir).acquire("a", 5)

    return caught.value


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("make", ["link", "dangling link", "folder", "pipe"])
async def test_what_is_no_plain_file_is_refused(tmp_path: Path, make: str) -> None:
    path = tmp_path / "load.lock"
    target = tmp_path / "precious"

    match make:
        case "link":
            target.write_text("precious")
            path.symlink_to(target)
        case "dangling link":
            path.symlink_to(target)
        case "folder":
            path.mkdir()
        case _:
            os.mkfifo(path)

    error = await refusal(tmp_path)
    assert error.reason is StateFault.WRONG_KIND
    assert str(path) in str(error)
    assert not target.exists() if make != "link" else target.read_text() == "precious"

    with pytest.raises(LockUnavailable):
        LoadLock(tmp_path).check()


async def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    assert (await refusal(tmp_path / "state")).reason is StateFault.WRONG_KIND
    assert (await refusal(tmp_path / "state" / "below")).reason is StateFault.WRONG_KIND


@pytest.mark.parametrize("make", ["folder", "pipe", "link", "garbage"])
async def test_a_record_path_that_is_taken_keeps_nobody_from_loading(
    tmp_path: Path, make: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "load.holder.json"
    precious = tmp_path / "precious"
    precious.write_text("precious")

    match make:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to(precious)
        case _:
            path.write_bytes(b"\xff" * 100)

    lock = LoadLock(tmp_path)
    (await lock.acquire("a", 0)).release()
    (await lock.acquire("a", 0)).release()

    assert precious.read_text() == "precious"
    assert len(caplog.records) == (0 if make == "garbage" else 1)
    assert sorted(set(os.listdir(tmp_path)) - {"load.holder.json"}) == ["load.lock", "precious"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.EROFS, StateFault.READ_ONLY),
        (errno.ENOSPC, StateFault.FULL),
        (errno.EDQUOT, StateFault.FULL),
        (errno.EACCES, StateFault.NOT_PERMITTED),
        (errno.EIO, StateFault.OTHER),
        (errno.EMFILE, StateFault.OTHER),
    ],
)
async def test_a_lock_file_that_cannot_be_made_is_a_typed_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, reason: StateFault
) -> None:
    def refuse(path: Path) -> int:
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(load_lock, "create_private", refuse)
    error = await refusal(tmp_path)
    assert error.reason is reason
    assert os.strerror(code) in str(error)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
async def test_a_file_system_without_locks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(fd: int, *, blocking: bool) -> bool:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(load_lock, "lock_descriptor", refuse)
    before = open_descriptors()
    assert (await refusal(tmp_path)).reason is StateFault.NO_LOCKS

    with pytest.raises(LockUnavailable) as caught:
        LoadLock(tmp_path).check()

    assert caught.value.reason is StateFault.NO_LOCKS
    assert open_descriptors() == before


async def test_a_network_file_system_is_refused_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = mounted_kinds()
    monkeypatch.setattr(state_folder, "_NETWORK_FILE_SYSTEMS", kinds)
    before = open_descriptors()
    error = await refusal(tmp_path)

    assert error.reason is StateFault.NETWORK
    assert any(f"({kind})" in str(error) for kind in kinds)
    assert open_descriptors() == before


def test_a_good_folder_passes_the_check_and_the_lock_stays_free(tmp_path: Path) -> None:
    LoadLock(tmp_path / "new").check()

    with server("hold", tmp_path / "new", "a") as other:
        assert other.hear() == "held"
        # One that is held is no reason not to start.
        LoadLock(tmp_path / "new").check()
        assert find_holder(tmp_path / "new") is not None


@needs_root
async def test_a_read_only_folder_without_a_lock_file_is_refused(tmp_path: Path) -> None:
    with mounted(tmp_path, "ro"):
        assert (await refusal(tmp_path)).reason is StateFault.READ_ONLY
        assert (await refusal(tmp_path / "below")).reason is StateFault.READ_ONLY


@needs_root
async def test_a_read_only_folder_with_a_lock_file_still_excludes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with mounted(tmp_path, "size=64k"):
        (tmp_path / "load.lock").touch()
        remount_read_only(tmp_path)

        with server("hold", tmp_path, "a") as other:
            assert other.hear() == "held"

            with pytest.raises(LoadLockBusy):
                await LoadLock(tmp_path).acquire("b", 0)

            holder = find_holder(tmp_path)
            assert holder is not None
            assert (holder.pid, holder.model) == (other.pid, None)

        (await LoadLock(tmp_path).acquire("b", 2)).release()
        assert "cannot be written: Read-only file system" in caplog.text


@needs_root
async def test_a_full_disk_keeps_nobody_from_loading(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with mounted(tmp_path, "size=16k"):
        fill(tmp_path / "filler")

        with await LoadLock(tmp_path).acquire("a", 0), pytest.raises(LoadLockBusy):
            await LoadLock(tmp_path).acquire("b", 0)

        assert "No space left" in caplog.text
        assert sorted(os.listdir(tmp_path)) == ["filler", "load.lock"]
        (tmp_path / "filler").unlink()

        with await LoadLock(tmp_path).acquire("a", 0):
            assert (tmp_path / "load.holder.json").exists()


@needs_root
async def test_a_disk_without_room_for_a_file_is_a_typed_refusal(tmp_path: Path) -> None:
    with mounted(tmp_path, "nr_inodes=2"):
        (tmp_path / "filler").touch()
        assert (await refusal(tmp_path)).reason is StateFault.FULL


@needs_root
def test_a_folder_of_another_user_is_a_typed_refusal(shared_dir: Path) -> None:
    shared_dir.chmod(0o755)

    with server("hold", shared_dir, "a", user=NOBODY) as other:
        assert other.hear() == "not_permitted"


@needs_root
@pytest.mark.parametrize("mode", [0o777, 0o1777], ids=["shared", "sticky"])
async def test_users_who_share_a_folder_exclude_and_see_each_other(
    shared_dir: Path, strict_umask: None, mode: int
) -> None:
    # D-50: a lock file that only its maker could open made everybody else fail.
    os.chmod(shared_dir, mode)

    with await LoadLock(shared_dir).acquire("a", 0):
        assert stat.S_IMODE((shared_dir / "load.lock").stat().st_mode) == 0o666

        with server("find-holder", shared_dir, user=NOBODY) as other:
            assert other.hear() == f"Holder(pid={os.getpid()}, model='a')"

    with server("hold", shared_dir, "b", user=NOBODY) as other:
        assert other.hear() == "held"

        with pytest.raises(LoadLockBusy):
            await LoadLock(shared_dir).acquire("a", 0)

        holder = find_holder(shared_dir)
        assert holder is not None
        assert (holder.pid, holder.model) == (other.pid, "b")
        other.kill()
        (await LoadLock(shared_dir).acquire("a", 2)).release()


@needs_root
async def test_a_file_of_an_older_package_that_only_its_maker_may_write_serves_others(shared_dir: Path) -> None:
    (shared_dir / "load.lock").touch(mode=0o644)

    with server("hold", shared_dir, "b", user=NOBODY) as other:
        assert other.hear() == "held"

        with pytest.raises(LoadLockBusy):
            await LoadLock(shared_dir).acquire("a", 0)
