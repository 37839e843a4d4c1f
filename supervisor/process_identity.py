"""Which process a number means. A process id alone is reused; with its start time, its boot and its pid namespace it names one process.

Called wherever a record of another process is believed or not. Reads a few small files of /proc, which takes some ten microseconds and
does not block. A process that cannot be seen is told apart from one that is dead: /proc may hide the processes of other users
(hidepid, ProtectProc), while a signal still tells that they are there.
"""

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

# PID_MAX_LIMIT of the kernel (include/linux/threads.h).
MAX_PID = 4_194_304
_MAX_TICKS = 1 << 63
_MAX_BOOT_ID_CHARACTERS = 64
_DEAD_STATES = frozenset({b"Z", b"X", b"x"})
# proc_pid_stat(5): field 3 is the state and field 22 the start time; the command's name, field 2, may hold anything, parentheses too.
_STATE_INDEX = 0
_START_INDEX = 22 - 3


class Sighting(StrEnum):
    """What can be said of a process from here."""

    ALIVE = "alive"
    DEAD = "dead"  # gone, a zombie, or its id belongs to another process by now
    HIDDEN = "hidden"  # there is a process with this id, but /proc does not show whether it is the one
    ELSEWHERE = "elsewhere"  # of another boot or pid namespace: its id says nothing here


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One process, for ever. Raises ValueError, naming the field, for values that no process can have.

    start_ticks: clock ticks from boot to its start. pid_namespace: inode number of the namespace in which pid counts.
    """

    pid: int
    start_ticks: int
    boot_id: str
    pid_namespace: int

    def __post_init__(self) -> None:
        """Refuse what cannot be, so that no signal ever goes to a group or to everybody."""
        if not 1 <= self.pid <= MAX_PID:
            raise ValueError(f"pid is out of range: {self.pid}")

        if not 0 <= self.start_ticks < _MAX_TICKS:
            raise ValueError(f"start_ticks is out of range: {self.start_ticks}")

        if not 0 < len(self.boot_id) <= _MAX_BOOT_ID_CHARACTERS:
            raise ValueError(f"boot_id must have 1 to {_MAX_BOOT_ID_CHARACTERS} characters, not {len(self.boot_id)}")

        if not 0 < self.pid_namespace < _MAX_TICKS:
            raise ValueError(f"pid_namespace is out of range: {self.pid_namespace}")


class _Stat(NamedTuple):
    state: bytes
    start_ticks: int


def own_identity() -> ProcessIdentity:
    """Return the identity of this process. Raises OSError where there is no /proc."""
    return _identity(os.getpid(), _read_stat("self").start_ticks)


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of a living process of this namespace; None when it is dead or cannot be seen."""
    try:
        stat = _read_stat(pid)
        return None if stat.state in _DEAD_STATES else _identity(pid, stat.start_ticks)
    except OSError:
        return None


def sight(identity: ProcessIdentity) -> Sighting:
    """Say whether this very process lives."""
    try:
        is_here = (identity.boot_id, identity.pid_namespace) == (_boot_id(), _pid_namespace())
    except OSError:
        return Sighting.HIDDEN

    return _sight(identity.pid, identity.start_ticks) if is_here else Sighting.ELSEWHERE


def sight_pid(pid: int) -> Sighting:
    """Say whether some process of this namespace has this id and lives."""
    return _sight(pid, None)


def is_alive(identity: ProcessIdentity) -> bool:
    """Say whether this very process is known to live: never true for a zombie, a reused id, another boot or another namespace."""
    return sight(identity) is Sighting.ALIVE


def _sight(pid: int, start_ticks: int | None) -> Sighting:
    try:
        stat = _read_stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return Sighting.HIDDEN if _exists(pid) else Sighting.DEAD
    except OSError:
        # hidepid=1 shows the folder and refuses the file; without a free descriptor nothing can be read at all.
        return Sighting.HIDDEN

    is_the_one = start_ticks is None or stat.start_ticks == start_ticks
    return Sighting.ALIVE if is_the_one and stat.state not in _DEAD_STATES else Sighting.DEAD


def _exists(pid: int) -> bool:
    """Ask by a signal that is not sent; it answers for hidden processes too."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True

    return True


def _read_stat(pid: int | str) -> _Stat:
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        content = file.read(4096)

    fields = content.rpartition(b")")[2].split()

    if len(fields) <= _START_INDEX:
        # A process that ends while it is read gives an empty file.
        raise ProcessLookupError(f"/proc/{pid}/stat holds no process: {content!r}")

    return _Stat(fields[_STATE_INDEX], int(fields[_START_INDEX]))


def _identity(pid: int, start_ticks: int) -> ProcessIdentity:
    return ProcessIdentity(pid=pid, start_ticks=start_ticks, boot_id=_boot_id(), pid_namespace=_pid_namespace())


def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
        return file.read(_MAX_BOOT_ID_CHARACTERS).strip()


def _pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino
