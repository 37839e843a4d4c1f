"""Puts a model folder into the models folder whole or not at all, one pull of a name at a time.

A pull works in a hidden folder beside the place where the model will be, so that the last step is a rename on one file system. Who holds
the lock of a name owns every hidden folder of that name: what lies there when the lock is taken was left by a process that died.
Called by `demo_model.py`. Blocks on the disk, and on the lock while another process pulls the same name.
"""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prism.export.progress import Progress
from prism.pull.errors import DiskFull, ForeignFolder, NotWritable

RECORD_NAME = "pulled.json"


@contextmanager
def held_name(models_dir: Path, name: str, progress: Progress) -> Iterator[Path]:
    """Hold the right to pull `name`, and give an empty hidden folder to work in. Both are gone afterwards, whatever happens.

    Waits without a bound for another process that pulls the same name: it gets on or dies, and then the kernel frees the lock.
    Raises NotWritable, DiskFull.
    """
    stage = models_dir / f".{name}.partial-{os.getpid()}"

    with clear_disk_errors(models_dir):
        models_dir.mkdir(parents=True, exist_ok=True)
        lock_path = models_dir / f".{name}.lock"
        lock_fd = _lock(lock_path, progress)

        try:
            _remove_leftovers(models_dir, name)
            stage.mkdir()
            yield stage
        finally:
            _remove_leftovers(models_dir, name)
            lock_path.unlink(missing_ok=True)
            os.close(lock_fd)


@contextmanager
def clear_disk_errors(models_dir: Path) -> Iterator[None]:
    """Turn what the disk says into one line for the user. Raises DiskFull, NotWritable."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no room left for the model in {models_dir}") from error

        raise NotWritable(f"cannot write to the models folder {models_dir}: {error.strerror or error}") from error


def require_room(models_dir: Path, needed_bytes: int) -> None:
    """Raises DiskFull when the file system of `models_dir` has less free than this."""
    free = shutil.disk_usage(models_dir).free

    if free < needed_bytes:
        raise DiskFull(
            f"pulling the model needs {needed_bytes // 1_000_000} MB in {models_dir}, {free // 1_000_000} MB are free"
        )


def write_record(folder: Path, source: str) -> None:
    """Write down what the folder holds, so that a later pull can tell whether it is whole and of this source."""
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    record = {"source": source, "files": sizes}
    (folder / RECORD_NAME).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def is_complete(folder: Path, source: str) -> bool:
    """Whether the folder was pulled from this source and every file still has its size."""
    try:
        record = json.loads((folder / RECORD_NAME).read_text(encoding="utf-8"))
        sizes = {str(name): int(size) for name, size in record["files"].items()}

        return record["source"] == source and all((folder / name).stat().st_size == sizes[name] for name in sizes)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def refuse_foreign(target: Path) -> None:
    """Raises ForeignFolder when a usable model that no pull made is in the way: it may be the only copy."""
    has_model = (target / "genai_config.json").exists() and any(target.glob("*.onnx"))

    if has_model and not (target / RECORD_NAME).exists():
        raise ForeignFolder(f"{target} holds a model that was not pulled; move it away and pull again")


def publish(finished: Path, target: Path) -> None:
    """Flush the finished folder to the disk and rename it to its place; a broken folder there is replaced."""
    for path in (*finished.iterdir(), finished):
        _flush(path)

    if os.path.lexists(target):
        target.rename(finished.parent / "replaced")

    finished.rename(target)
    _flush(target.parent)


def _lock(path: Path, progress: Progress) -> int:
    """Take the lock file. A holder removes it before letting go, so a lock on a file that is no longer there is worth nothing."""
    while True:
        # A link that somebody put there must not make us create, or hold, a file of another place.
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)

        try:
            _wait_for(fd, progress)

            if _is_at(fd, path):
                return fd
        except BaseException:
            os.close(fd)
            raise

        os.close(fd)


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


def _wait_for(fd: int, progress: Progress) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        progress("wait for another pull", 0, None)
        fcntl.flock(fd, fcntl.LOCK_EX)


def _remove_leftovers(models_dir: Path, name: str) -> None:
    for leftover in models_dir.glob(f".{name}.partial-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _flush(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)

    try:
        os.fsync(fd)
    finally:
        os.close(fd)
