"""A mark of a model folder that changes when any of its files does. For the restart policy: a bad folder is tried again when it changed.

Called by the one that owns the workers, when a load begins and when a request meets a folder that is known to be bad. Blocks for one
`stat` for each file (about 2 µs on a local disk); reads no content.
"""

import hashlib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

# A folder with more is marked by these: a model has some dozens of files.
MAX_FILES = 10_000
_MAX_DEPTH = 8


def folder_mark(folder: Path) -> str:
    """Return the mark: the same for the same names, sizes and times of change, at any depth. Never raises; a missing folder has one too.

    Links to files are followed, since a cache of downloads is made of them. The time at which owner and mode changed counts as well: a
    file that could not be read and now can is a repair.
    """
    digest = hashlib.blake2b(digest_size=16)

    for line in sorted(islice(_lines(str(folder), "", _MAX_DEPTH), MAX_FILES)):
        digest.update(line)
        digest.update(b"\0")

    return digest.hexdigest()


def _lines(folder: str, name_before: str, depth_left: int) -> Iterator[bytes]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield from _lines_of(entry, f"{name_before}{entry.name}", depth_left)
    except ValueError:
        # A path that is no path: half of a surrogate pair, a NUL.
        yield b"no path"
    except OSError as error:
        yield f"{name_before} cannot be listed: {error.errno}".encode("utf-8", "surrogateescape")


def _lines_of(entry: os.DirEntry[str], name: str, depth_left: int) -> Iterator[bytes]:
    try:
        status = entry.stat()
        figures = f"{status.st_mode} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
        is_folder = entry.is_dir(follow_symlinks=False)
    except OSError as error:
        figures, is_folder = f"unreadable {error.errno}", False

    # A folder's own times change with names in it, which are listed anyway.
    if is_folder and depth_left > 0:
        yield from _lines(entry.path, f"{name}/", depth_left - 1)
    else:
        yield f"{name} {figures}".encode("utf-8", "surrogateescape")
