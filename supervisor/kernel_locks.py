"""Who has a flock on a file, in the kernel's own words (/proc/locks). Needed for holders that left no record we can believe.

Reads one file of /proc. Some sandboxes hide it, and some file systems show another device number there than stat does.
"""

import os
from dataclasses import dataclass
from pathlib import Path

_TABLE = Path("/proc/locks")


@dataclass(frozen=True, slots=True)
class FlockOwners:
    """Process ids, of our namespace, that took an exclusive flock: surely on the file, or on one with the same inode number."""

    certain: frozenset[int] = frozenset()
    possible: frozenset[int] = frozenset()


def flock_owners(file: os.stat_result) -> FlockOwners:
    """Return who has an exclusive flock on a file; nobody when nobody has, or the kernel does not tell."""
    try:
        table = _TABLE.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return FlockOwners()

    return parse_owners(table, file.st_dev, file.st_ino)


def parse_owners(table: str, device: int, inode: int) -> FlockOwners:
    """Read a table in the form of /proc/locks (proc_locks(5)). Lines of waiters, and whatever else is not expected, are passed over."""
    place = f"{os.major(device):02x}:{os.minor(device):02x}:{inode}"
    certain: set[int] = set()
    possible: set[int] = set()

    for line in table.splitlines():
        match line.split():
            case [_, "FLOCK", _, "WRITE", pid, at, *_] if pid.isascii() and pid.isdecimal() and int(pid) > 0:
                if at == place:
                    certain.add(int(pid))
                elif at.rpartition(":")[2] == str(inode):
                    possible.add(int(pid))

    return FlockOwners(frozenset(certain), frozenset(possible))
