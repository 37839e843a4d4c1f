"""The lock that lets one server of this machine load a model at a time, from the budget check until its worker says that it is loaded.

`<state>/load.lock` carries the lock; nobody writes into it and nobody deletes it. An older package that takes a flock on the same file is
excluded, and excludes us. Beside it, `load.holder.json` tells who has the lock; it is written and removed under the lock and is itself
locked by its writer (`supervisor.held_record`). The kernel frees both in the moment in which the holder dies.

Used by the host in the event loop's thread. An attempt takes some hundred microseconds; a wait is a chain of attempts. The only file that
imports filelock. Its lock on a descriptor of ours is used: its own lock objects open for writing, refuse a file that another user made in a
sticky folder, and wait in a thread.
"""

import asyncio
import contextlib
import logging
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import lock_descriptor, unlock_descriptor

from supervisor.errors import LoadLockBusy as LoadLockBusy
from supervisor.errors import LockUnavailable as LockUnavailable
from supervisor.held_record import HeldRecord, is_held, publish, remove_leftovers
from supervisor.process_identity import own_identity
from supervisor.record_fields import MAX_TEXT_CHARACTERS, encode_record
from supervisor.state_folder import (
    StateFault,
    create_private,
    ensure_folder,
    fault_of,
    is_at,
    network_file_system,
    open_regular,
    share,
)

logger = logging.getLogger(__name__)

LOCK_NAME = "load.lock"
RECORD_NAME = "load.holder.json"
# Another process that lets go gives no event that could be awaited together with a bound and a cancel.
POLL_S = 0.05
# A file that another user makes in this moment is not shared yet, and one may be deleted between two looks.
_REFUSALS = 3
_PASSING = (PermissionError, FileNotFoundError)


class HeldLoadLock:
    """The lock, taken. Release it on every path; also usable as a context."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd
        self._record: HeldRecord | None = None

    def keep(self, record: HeldRecord) -> None:
        """Own the record that tells of us."""
        self._record = record

    def release(self) -> None:
        """Let go. May be called again; then it does nothing."""
        fd, self._fd = self._fd, None

        if fd is None:
            return

        try:
            # First the name, then the lock: nobody is named who has let go.
            if self._record is not None:
                self._record.remove()
        finally:
            # A child between its fork and its exec shares the descriptor, and a mere close would leave the lock to it.
            with contextlib.suppress(OSError):
                unlock_descriptor(fd)

            os.close(fd)

    def __enter__(self) -> Self:
        """Give the taken lock to the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Release it, however the block ends."""
        self.release()


class LoadLock:
    """The load lock of one state folder. Holds nothing itself, so it may be asked by any number of tasks."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._path = state_dir / LOCK_NAME
        self._is_local = False
        self._has_warned = False

    async def acquire(self, model_id: str, timeout_s: float) -> HeldLoadLock:
        """Wait for the lock, at most timeout_s seconds; 0 means one attempt. Cancelled while waiting, it leaves nothing behind.

        Raises LoadLockBusy when another process kept it, LockUnavailable at once when the folder allows no lock.
        """
        deadline = time.monotonic() + timeout_s
        refusals = 0
        has_told = False

        while True:
            try:
                if (held := self._attempt(model_id)) is not None:
                    return held
            except OSError as error:
                refusals += 1

                if not isinstance(error, _PASSING) or refusals >= _REFUSALS:
                    raise self._unavailable(error) from error

            if (left_s := deadline - time.monotonic()) <= 0:
                raise LoadLockBusy(f"another process kept {self._path} for {timeout_s:g} s (PRISM_LOAD_TIMEOUT)")

            if not has_told:
                has_told = True
                logger.info("[load lock] another process loads a model; '%s' waits up to %g s", model_id, timeout_s)

            await asyncio.sleep(min(POLL_S, left_s))

    def check(self) -> None:
        """Raise LockUnavailable when the folder allows no lock. For the start of a server; waits for nobody."""
        try:
            fd = self._open(ensure_folder(self._state_dir))

            with HeldLoadLock(fd):
                # Taken for a moment, as only that tells whether the file system has locks at all.
                lock_descriptor(fd, blocking=False)
        except OSError as error:
            raise self._unavailable(error) from error

    def _attempt(self, model_id: str) -> HeldLoadLock | None:
        """Take the lock if it is free. Raises OSError, LockUnavailable; then, and when it is taken, nothing is left behind."""
        folder = ensure_folder(self._state_dir)
        fd = self._open(folder)

        with contextlib.ExitStack() as undo:
            held = undo.enter_context(HeldLoadLock(fd))

            # Looked at again in the end: the file may have been replaced meanwhile, and then another process may have taken the new one.
            if self._take(fd) and self._tell(held, model_id, folder) and is_at(fd, self._path):
                undo.pop_all()
                return held

        return None

    def _open(self, folder: os.stat_result) -> int:
        try:
            fd = open_regular(self._path)
        except FileNotFoundError:
            fd = self._create(folder)

        if not self._is_local and (kind := network_file_system(fd)) is not None:
            os.close(fd)
            raise LockUnavailable(
                StateFault.NETWORK,
                f"{self._state_dir} is on a network file system ({kind}), where the load lock cannot be trusted: "
                "name a folder on a local disk (PRISM_STATE_DIR), or do without the lock (PRISM_LOAD_LOCK=off)",
            )

        self._is_local = True
        return fd

    def _create(self, folder: os.stat_result) -> int:
        try:
            fd = create_private(self._path)
        except FileExistsError:
            return open_regular(self._path)

        share(fd, folder, is_writable=True)
        return fd

    def _take(self, fd: int) -> bool:
        """Take the kernel's lock. One on a file that was deleted or replaced is worth nothing.

        Neither is a lock on the new file while the holder of the old one lives, and it does as long as its record is held.
        """
        return lock_descriptor(fd, blocking=False) and is_at(fd, self._path) and not is_held(self._record_path)

    def _tell(self, held: HeldLoadLock, model_id: str, folder: os.stat_result) -> bool:
        """Tell the others who we are; return False when a living holder has told that before.

        A full or read-only folder is no reason not to load; then we are only nameless.
        """
        remove_leftovers(self._state_dir, RECORD_NAME)
        created = datetime.now(UTC).isoformat(timespec="seconds")

        try:
            content = encode_record(own_identity(), {"model": model_id[:MAX_TEXT_CHARACTERS], "created": created})
            record = publish(self._record_path, content, folder)
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                logger.warning("[load lock] %s cannot be written: %s", self._record_path, error.strerror or error)

            return True

        if record is not None:
            held.keep(record)

        return record is not None

    @property
    def _record_path(self) -> Path:
        return self._state_dir / RECORD_NAME

    def _unavailable(self, error: OSError) -> LockUnavailable:
        return LockUnavailable(
            fault_of(error),
            f"the load lock {self._path} cannot be used: {error.strerror or error}; name another folder (PRISM_STATE_DIR), "
            "or do without the lock (PRISM_LOAD_LOCK=off)",
        )
