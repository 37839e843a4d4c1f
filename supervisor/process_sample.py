"""What the kernel tells about a process from outside, without its help: state, CPU time, waiting for a CPU, disk reads. Linux's /proc.

Used by `supervisor.progress_watch` in the event loop's thread. Blocks for about 15 µs a file: three files, and two for each thread of the
process. None of the files takes a lock that a hung process could hold (`cmdline`, `maps` and `smaps` do, and are not read).
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

# A process with more threads is judged by its own figures and by these of its threads.
MAX_THREADS = 256
_NS_PER_S = 1_000_000_000
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ThreadSample:
    """One look at a thread. The figures only grow, and stay 0 where the kernel does not count them.

    is_runnable: it runs, or waits for nothing but a CPU.
    cpu_s, waited_s: time on a CPU, and time that it could have run but had none, up to the end of the last such wait.
    slices: how often it was given a CPU.
    """

    is_runnable: bool
    cpu_s: float = 0.0
    waited_s: float = 0.0
    slices: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSample:
    """One look at a process. Figures only grow, but for resident_bytes and for what ended children take with them.

    state: of the main thread, one letter of proc(5): R, S, D, T (stopped), t (stopped by a debugger), Z.
    cpu_s: CPU time of all its threads, also the ended ones, and of its children that ended; in steps of a clock tick.
    threads: those that live now, by their id.
    is_in_kernel: a thread is in an uninterruptible wait (a disk, a driver).
    read_bytes: what it had read from disks, page faults on mapped files included; None where that may not be read.
    family_cpu_s: CPU time of the other processes of its session; None when they were not looked for.
    """

    state: str
    cpu_s: float
    threads: Mapping[int, ThreadSample]
    is_in_kernel: bool
    read_bytes: int | None
    major_faults: int
    resident_bytes: int
    family_cpu_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Stat:
    """The fields of /proc/PID/stat that are used, by the names of proc(5)."""

    state: str
    session: int
    majflt: int
    cpu_s: float
    rss_bytes: int


def read_process(pid: int, *, with_family: bool) -> ProcessSample | None:
    """Look at a process; None when it is gone or cannot be seen.

    with_family: also look for other processes of the session that it leads. That reads a file of every process of the machine.
    """
    stat = _read_stat(f"/proc/{pid}/stat")

    if stat is None:
        return None

    threads: dict[int, ThreadSample] = {}
    is_in_kernel = stat.state == "D"

    for thread_id in _thread_ids(pid):
        folder = f"/proc/{pid}/task/{thread_id}"
        thread = _read_stat(f"{folder}/stat")

        if thread is not None:
            threads[thread_id] = _thread_sample(thread.state, _read(f"{folder}/schedstat"))
            is_in_kernel = is_in_kernel or thread.state == "D"

    return ProcessSample(
        state=stat.state,
        cpu_s=stat.cpu_s,
        threads=threads,
        is_in_kernel=is_in_kernel,
        read_bytes=_read_bytes(pid),
        major_faults=stat.majflt,
        resident_bytes=stat.rss_bytes,
        family_cpu_s=_family_cpu_s(pid) if with_family else None,
    )


def _read(path: str) -> bytes | None:
    # Unbuffered and in bytes: what is read here is read twice a second for each thread.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None

    try:
        return os.read(descriptor, 4096)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _read_stat(path: str) -> _Stat | None:
    text = _read(path)
    return _parse_stat(text) if text else None


def _parse_stat(text: bytes) -> _Stat:
    # The second field is the name of the program, in brackets, and may hold blanks and brackets itself.
    fields = text.rpartition(b")")[2].split()
    # Field n of proc(5) stands at n - 3: utime, stime, cutime and cstime are 14 to 17.
    ticks = sum(int(field) for field in fields[11:15])
    return _Stat(
        state=fields[0].decode("ascii"),
        session=int(fields[3]),
        majflt=int(fields[9]),
        cpu_s=ticks / _TICKS_PER_S,
        rss_bytes=int(fields[21]) * _PAGE_BYTES,
    )


def _thread_ids(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")][:MAX_THREADS]
    except OSError:
        return []


def _thread_sample(state: str, schedstat: bytes | None) -> ThreadSample:
    is_runnable = state == "R"

    if not schedstat:
        return ThreadSample(is_runnable)

    cpu_ns, waited_ns, slices = (int(figure) for figure in schedstat.split())
    return ThreadSample(is_runnable, cpu_ns / _NS_PER_S, waited_ns / _NS_PER_S, slices)


def _read_bytes(pid: int) -> int | None:
    text = _read(f"/proc/{pid}/io")

    for line in (text or b"").splitlines():
        name, _, value = line.partition(b":")

        if name == b"read_bytes":
            return int(value)

    return None


def _family_cpu_s(leader_pid: int) -> float:
    total_s = 0.0

    with suppress(OSError):
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == leader_pid:
                continue

            stat = _read_stat(f"/proc/{name}/stat")

            if stat is not None and stat.session == leader_pid:
                total_s += stat.cpu_s

    return total_s
