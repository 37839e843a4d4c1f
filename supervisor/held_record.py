"""A small JSON file about its writer, believed only while its writer holds a lock on it. The kernel drops that lock when the writer dies.

A record is written under a hidden name, locked there, and linked into place: readers see it whole, and never an unlocked one of a living
writer. A held record is deleted by its writer only, and a void one only by who has its lock, so at most one writer has one at a path.
Plain flock on descriptors that no child inherits; the load lock itself is in `supervisor.load_lock`. Blocks for single calls to a local
file system; nothing is flushed, since no record outlives the boot.
"""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from supervisor.state_folder import create_private, is_at, open_regular, share

MAX_RECORD_BYTES = 16 * 1024
_SUFFIX = ".tmp"
_ATTEMPTS = 3


class HeldRecord:
    """A record of this process. Whoever publishes one removes it; else it is void when the process ends."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd: int | None = fd
        self._path = path

    @property
    def is_in_place(self) -> bool:
        """Whether the path still names this record."""
        return self._fd is not None and is_at(self._fd, self._path)

    def remove(self) -> None:
        """Take the record away. May be called again. One that cannot be deleted is void all the same, as its lock is gone."""
        fd, self._fd = self._fd, None

        if fd is None:
            return

        try:
            with contextlib.suppress(OSError):
                # Somebody may have deleted ours by hand, and another process may have put its own there.
                if is_at(fd, self._path):
                    os.unlink(self._path)
        finally:
            os.close(fd)


class RecordDraft:
    """A locked file that has no content yet, under a hidden name. Published or discarded by who made it."""

    def __init__(self, fd: int, temporary: Path) -> None:
        # A child that is given the descriptor holds the lock too, for as long as it lives.
        self.fd = fd
        self._temporary = temporary

    def publish(self, path: Path, content: bytes, folder: os.stat_result) -> HeldRecord | None:
        """As `publish` does. The draft is used up, whatever comes of it."""
        try:
            _write(self.fd, content)
            share(self.fd, folder, is_writable=False)
            is_published = _link(self._temporary, path)
        except BaseException:
            os.close(self.fd)
            raise
        finally:
            self._remove_temporary()

        if is_published:
            return HeldRecord(self.fd, path)

        os.close(self.fd)
        return None

    def discard(self) -> None:
        """Leave nothing of it."""
        self._remove_temporary()
        os.close(self.fd)

    def _remove_temporary(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._temporary)


def draft(path: Path) -> RecordDraft | None:
    """Return a draft for a record at about this path; None when others just clear the folder. Raises OSError, and leaves nothing then."""
    created = _create_locked(path)
    return None if created is None else RecordDraft(*created)


def publish(path: Path, content: bytes, folder: os.stat_result) -> HeldRecord | None:
    """Put a record at `path`, if no living writer has one there; a void one is replaced. folder: of the one it lies in.

    Returns None when somebody has one there, or just clears a void one. Raises OSError. Then, too, nothing is left behind.
    """
    made = draft(path)
    return None if made is None else made.publish(path, content, folder)


def read_held(path: Path) -> bytes | None:
    """Return the content of a record whose writer lives; None for any other, also for one that is too long or must not be read."""
    return found[0] if (found := read_held_and_owner(path)) is not None else None


def read_held_and_owner(path: Path) -> tuple[bytes, int] | None:
    """As `read_held`, with the id of the user whose file it is."""
    with contextlib.suppress(OSError):
        fd = open_regular(path)

        try:
            content = os.read(fd, MAX_RECORD_BYTES + 1) if _is_locked(fd) else b""
            owner = os.fstat(fd).st_uid
        finally:
            os.close(fd)

        return (content, owner) if 0 < len(content) <= MAX_RECORD_BYTES else None

    return None


def is_held(path: Path) -> bool:
    """Say whether a record's writer is known to live, whatever the record holds."""
    with contextlib.suppress(OSError):
        fd = open_regular(path)

        try:
            return _is_locked(fd)
        finally:
            os.close(fd)

    return False


def remove_void(path: Path, may_remove: Callable[[bytes], bool]) -> bool:
    """Delete a record that nobody holds, if its content allows that; return whether it is gone.

    Only who has its lock deletes a record, so a fresh one that was just put in its place is never hit.
    """
    try:
        fd = open_regular(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False

    try:
        if not _take(fd) or not is_at(fd, path) or not may_remove(os.read(fd, MAX_RECORD_BYTES + 1)):
            return False

        os.unlink(path)
    except OSError:
        return False
    finally:
        os.close(fd)

    return True


def remove_leftovers(folder: Path, prefix: str = "") -> None:
    """Delete the hidden files that writers of records left who died while they wrote. prefix: how the records' names begin."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(f".{prefix}") and name.endswith(_SUFFIX):
                remove_void(folder / name, lambda content: True)


def _link(temporary: Path, path: Path) -> bool:
    """Give a locked file its name. A link, as a rename would also replace the record of a writer that came between."""
    with contextlib.suppress(FileExistsError):
        os.link(temporary, path)
        return True

    with contextlib.suppress(FileNotFoundError, FileExistsError):
        fd = open_regular(path)

        try:
            if _take(fd) and is_at(fd, path):
                os.unlink(path)
                os.link(temporary, path)
                return True
        finally:
            os.close(fd)

    return False


def _create_locked(path: Path) -> tuple[int, Path] | None:
    for _ in range(_ATTEMPTS):
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}{_SUFFIX}")
        fd = create_private(temporary)

        try:
            # Before it is locked, somebody who clears leftovers may take it for one.
            if _take(fd) and is_at(fd, temporary):
                return fd, temporary
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)

            os.close(fd)
            raise

        os.close(fd)

    return None


def _take(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False

    return True


def _write(fd: int, content: bytes) -> None:
    while content:
        content = content[os.write(fd, content) :]


def _is_locked(fd: int) -> bool:
    try:
        # Shared, so that two who ask do not take each other for the writer.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True

    return False
