"""Whether the kernel ended a process for lack of memory, in its own words: the counter of the control group that we and our workers are in.

The kernel counts before it sends the signal (mm/oom_kill.c), so a worker that is seen to be dead has been counted. Where there is no such
file nothing is known, and a SIGKILL stays a SIGKILL. Used by `Worker`, in the event loop's thread; reads one small file in place.
"""

from pathlib import Path

_OWN_GROUPS = Path("/proc/self/cgroup")
_ROOT = Path("/sys/fs/cgroup")


class OomWatch:
    """Compares the counter with what it was. file: see `find_counter`; None where there is none."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._before = self._count()

    def note(self) -> None:
        """Only what comes from now on counts."""
        self._before = self._count()

    def has_killed(self) -> bool:
        """Say whether it is known that the kernel ended a process of the group since then."""
        now = self._count()
        return now is not None and self._before is not None and now > self._before

    def _count(self) -> int | None:
        try:
            text = self._file.read_text(encoding="ascii", errors="replace") if self._file is not None else ""
        except OSError:
            return None

        return parse_count(text)


def parse_count(text: str) -> int | None:
    """Return the counter in a file of the form of `memory.events` or `memory.oom_control`; None when it has none."""
    for line in text.splitlines():
        match line.split():
            case ["oom_kill", count] if count.isascii() and count.isdecimal():
                return int(count)
            case _:
                pass

    return None


def find_own_counter() -> Path | None:
    """Return the file that counts for the group of this process, and so for its children."""
    try:
        return find_counter(_OWN_GROUPS.read_text(encoding="utf-8", errors="replace"), _ROOT)
    except OSError:
        return None


def find_counter(groups: str, root: Path) -> Path | None:
    """Return the file that counts for a process. groups: its /proc/PID/cgroup. root: where the control groups are mounted.

    A container may see its own group at the root, while the path of it is that of the host.
    """
    for line in groups.splitlines():
        match line.split(":", 2):
            case ["0", "", path]:
                places = [root / path.lstrip("/") / "memory.events", root / "memory.events"]
            case [_, controllers, path] if "memory" in controllers.split(","):
                folder = root / "memory"
                places = [folder / path.lstrip("/") / "memory.oom_control", folder / "memory.oom_control"]
            case _:
                continue

        for place in places:
            # The very root counts nothing, and older kernels have no such line.
            if _has_counter(place):
                return place

    return None


def _has_counter(place: Path) -> bool:
    try:
        return parse_count(place.read_text(encoding="ascii", errors="replace")) is not None
    except OSError:
        return False
