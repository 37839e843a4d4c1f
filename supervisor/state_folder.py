"""The folder in which the servers of one machine find each other: how it is made, who may use the files in it, what can be wrong with it.

Its files are as open as the folder itself: in a private folder they are private; in one that a group, or everybody, may write, the same
people may read them and take locks on them. Who may write the folder can keep others from loading anyway, so they trust each other.
Called by the load lock and the residents' records. Blocks for single calls to a local file system.
"""

import contextlib
import errno
import os
import stat
from enum import StrEnum
from pathlib import Path


class StateFault(StrEnum):
    """Why the folder, or a file in it, cannot be used."""

    READ_ONLY = "read_only"
    FULL = "full"
    NOT_PERMITTED = "not_permitted"
    WRONG_KIND = (
        "wrong_kind"  # a link, a pipe or a folder stands where a file must be, or a file where the folder must be
    )
    NO_LOCKS = "no_locks"  # the file system has no flock
    NETWORK = "network"  # a lock there would bind other machines, and may be lost without a word
    OTHER = "other"


_FAULTS = {
    errno.EROFS: StateFault.READ_ONLY,
    errno.ENOSPC: StateFault.FULL,
    errno.EDQUOT: StateFault.FULL,
    errno.EACCES: StateFault.NOT_PERMITTED,
    errno.EPERM: StateFault.NOT_PERMITTED,
    errno.ELOOP: StateFault.WRONG_KIND,
    errno.EEXIST: StateFault.WRONG_KIND,
    errno.EISDIR: StateFault.WRONG_KIND,
    errno.ENOTDIR: StateFault.WRONG_KIND,
    errno.ENXIO: StateFault.WRONG_KIND,
    errno.ENOSYS: StateFault.NO_LOCKS,
    errno.ENOLCK: StateFault.NO_LOCKS,
    errno.EOPNOTSUPP: StateFault.NO_LOCKS,
}

_NETWORK_FILE_SYSTEMS = frozenset(
    {"afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "gpfs", "lustre", "nfs", "nfs4", "smb3", "smbfs"}
)


def fault_of(error: OSError) -> StateFault:
    """Return the fault that an error of the system means."""
    return _FAULTS.get(error.errno or 0, StateFault.OTHER)


def ensure_folder(path: Path) -> os.stat_result:
    """Return what is known of the folder; a missing one is made, for its owner alone. Raises OSError."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.stat(path)


def ensure_subfolder(path: Path, parent: os.stat_result) -> os.stat_result:
    """Return what is known of a folder in the state folder; a missing one is made, as open as `parent`.

    Raises OSError, also for a link: it may lead anywhere.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        found = os.lstat(path)

        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "is no folder", str(path)) from None

        return found

    with contextlib.suppress(OSError):
        os.chown(path, -1, parent.st_gid)
        # The sticky bit and the group's inheritance belong to how a folder is shared.
        os.chmod(path, 0o700 | stat.S_IMODE(parent.st_mode) & 0o3077)

    return os.stat(path)


def open_regular(path: Path) -> int:
    """Open a file for reading, which is enough to lock it; return the descriptor. Raises OSError, also for what is no plain file.

    A link is refused, and opening a pipe does not wait for its other end.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)

    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd

    os.close(fd)
    raise OSError(errno.ENXIO, "is no plain file", str(path))


def create_private(path: Path) -> int:
    """Make a new file, for its owner alone, and return its descriptor. Raises OSError; FileExistsError also for a link."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def share(fd: int, folder: os.stat_result, *, is_writable: bool) -> None:
    """Open a new file of ours to those who share the folder. The process's umask has no say: the folder decides."""
    group, others = (0o060, 0o006) if is_writable else (0o040, 0o004)
    mode = 0o600 | (others if folder.st_mode & stat.S_IWOTH else 0)

    # What cannot be shared stays private; that is no reason not to have it.
    with contextlib.suppress(OSError):
        if folder.st_mode & stat.S_IWGRP and _belongs_to_group(fd, folder.st_gid):
            mode |= group

        os.fchmod(fd, mode)


def _belongs_to_group(fd: int, group_id: int) -> bool:
    try:
        if os.fstat(fd).st_gid != group_id:
            os.fchown(fd, -1, group_id)
    except PermissionError:
        return False

    return True


def is_at(fd: int, path: Path) -> bool:
    """Say whether the open file is still the one that the path names: it may have been deleted or replaced."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except (FileNotFoundError, NotADirectoryError):
        return False


def network_file_system(fd: int) -> str | None:
    """Return the type of the file system that the open file is on when it is one of a network; None when it is not, or nobody can tell."""
    with contextlib.suppress(OSError, StopIteration, IndexError):
        fdinfo = Path(f"/proc/self/fdinfo/{fd}").read_text(encoding="utf-8").splitlines()
        mount_id = next(line.split()[1] for line in fdinfo if line.startswith("mnt_id:"))
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        mount = next(line for line in mounts if line.split(" ", 1)[0] == mount_id)
        kind = mount.partition(" - ")[2].split(" ", 1)[0]
        return kind if kind in _NETWORK_FILE_SYSTEMS else None

    return None
