"""Who may use the files of the state folder."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor import state_folder
from supervisor.state_folder import (
    StateFault,
    create_private,
    ensure_folder,
    ensure_subfolder,
    fault_of,
    is_at,
    network_file_system,
    open_regular,
    share,
)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    fd = create_private(tmp_path / "file")
    yield fd
    os.close(fd)


@pytest.mark.parametrize(
    ("folder_mode", "written", "read"),
    [
        (0o700, 0o600, 0o600),
        (0o755, 0o600, 0o600),
        (0o770, 0o660, 0o640),
        (0o2775, 0o660, 0o640),
        (0o777, 0o666, 0o644),
        (0o1777, 0o666, 0o644),
        (0o707, 0o606, 0o604),
    ],
)
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_files_are_as_open_as_their_folder_whatever_the_umask(
    tmp_path: Path, fd: int, folder_mode: int, written: int, read: int, umask: int
) -> None:
    tmp_path.chmod(folder_mode)
    before = os.umask(umask)

    try:
        share(fd, tmp_path.stat(), is_writable=True)
        assert mode_of(tmp_path / "file") == written
        share(fd, tmp_path.stat(), is_writable=False)
        assert mode_of(tmp_path / "file") == read
    finally:
        os.umask(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder to a group that it is not in")
def test_a_file_goes_to_the_group_of_its_folder(tmp_path: Path, fd: int) -> None:
    os.chown(tmp_path, -1, 12345)
    tmp_path.chmod(0o770)
    share(fd, tmp_path.stat(), is_writable=True)
    assert os.fstat(fd).st_gid == 12345


def test_a_group_that_cannot_be_given_gets_nothing(tmp_path: Path, fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, user: int, group: int) -> None:
        raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr(os, "fchown", refuse)
    folder = os.stat_result((0o40777, *tmp_path.stat()[1:5], 12345, *tmp_path.stat()[6:]))
    share(fd, folder, is_writable=True)
    assert mode_of(tmp_path / "file") == 0o606


@pytest.mark.parametrize("mode", [0o700, 0o770, 0o2770, 0o1777])
def test_a_subfolder_is_as_open_as_its_parent(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    ensure_subfolder(tmp_path / "residents", tmp_path.stat())
    assert mode_of(tmp_path / "residents") == mode


def test_a_subfolder_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "residents").mkdir(mode=0o711)
    ensure_subfolder(tmp_path / "residents", tmp_path.stat())
    assert mode_of(tmp_path / "residents") == 0o711


@pytest.mark.parametrize("make", ["link", "file"])
def test_a_subfolder_that_is_none_is_refused(tmp_path: Path, make: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "residents"
    path.symlink_to(tmp_path / "elsewhere") if make == "link" else path.touch()

    with pytest.raises(NotADirectoryError) as caught:
        ensure_subfolder(path, tmp_path.stat())

    assert fault_of(caught.value) is StateFault.WRONG_KIND


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert os.path.samestat(ensure_folder(tmp_path / "link"), (tmp_path / "real").stat())


def test_only_plain_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")

    os.close(open_regular(tmp_path / "file"))

    for name in ("link", "folder", "pipe"):
        with pytest.raises(OSError) as caught:
            open_regular(tmp_path / name)

        assert fault_of(caught.value) is StateFault.WRONG_KIND


def test_what_is_opened_is_not_inherited(tmp_path: Path, fd: int) -> None:
    opened = open_regular(tmp_path / "file")
    assert not os.get_inheritable(fd)
    assert not os.get_inheritable(opened)
    os.close(opened)


def test_a_file_that_was_deleted_or_replaced_is_not_the_one_at_its_path(tmp_path: Path, fd: int) -> None:
    path = tmp_path / "file"
    assert is_at(fd, path)
    path.unlink()
    assert not is_at(fd, path)
    path.touch()
    assert not is_at(fd, path)


def test_a_local_file_system_is_none_of_a_network(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert network_file_system(fd) is None

    kinds = {line.split()[2] for line in Path("/proc/mounts").read_text().splitlines()}
    monkeypatch.setattr(state_folder, "_NETWORK_FILE_SYSTEMS", kinds)
    assert network_file_system(fd) in kinds


def test_a_fault_without_a_number_is_another_one() -> None:
    assert fault_of(OSError("no number")) is StateFault.OTHER
