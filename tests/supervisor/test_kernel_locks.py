"""Who has a flock, as the kernel tells."""

import fcntl
import os
from pathlib import Path

import pytest

from supervisor import kernel_locks
from supervisor.kernel_locks import FlockOwners, flock_owners, parse_owners

TABLE = """\
1: FLOCK  ADVISORY  WRITE 6229 fe:00:2146348 0 EOF
1: -> FLOCK  ADVISORY  WRITE 6230 fe:00:2146348 0 EOF
2: POSIX  ADVISORY  WRITE 6231 fe:00:2146348 128 128
3: FLOCK  ADVISORY  READ  6232 fe:00:2146348 0 EOF
4: FLOCK  ADVISORY  WRITE 6233 00:2b:2146348 0 EOF
5: FLOCK  ADVISORY  WRITE 0 fe:00:2146348 0 EOF
6: FLOCK  ADVISORY  WRITE -1 fe:00:2146348 0 EOF
7: OFDLCK ADVISORY  WRITE -1 fe:00:2146348 0 EOF
8: LEASE  ACTIVE    READ 6234 fe:00:2146348 0 EOF
9: FLOCK  ADVISORY  WRITE 6235 fe:00:12146348 0 EOF
nonsense

10: FLOCK
"""


def test_only_owners_of_an_exclusive_flock_count() -> None:
    owners = parse_owners(TABLE, os.makedev(0xFE, 0), 2146348)
    assert owners == FlockOwners(certain=frozenset({6229}), possible=frozenset({6233}))


def test_a_lock_that_is_really_held_is_seen(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        assert os.getpid() not in flock_owners(os.fstat(file.fileno())).certain
        fcntl.flock(file, fcntl.LOCK_EX)
        owners = flock_owners(os.fstat(file.fileno()))

    assert os.getpid() in owners.certain | owners.possible


def test_a_table_that_is_hidden_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_locks, "_TABLE", tmp_path / "locks")
    assert flock_owners(tmp_path.stat()) == FlockOwners()
