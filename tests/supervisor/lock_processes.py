"""Servers that only lock: real processes for the tests of the load lock and of the residents.

Run as `python -m tests.supervisor.lock_processes USER COMMAND STATE_DIR ...`. Each says a word when it is where the test wants it, and
goes on when it reads a line.
"""

import asyncio
import fcntl
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path

from ipc.messages import Device
from supervisor import load_lock
from supervisor.holder import find_holder
from supervisor.load_lock import LoadLock, LoadLockBusy, LockUnavailable
from supervisor.process_identity import Sighting, sight_pid
from supervisor.residents import Resident, announce, list_residents

ROOT = Path(__file__).resolve().parents[2]


class Server:
    """One such process, from the test's side."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def hear(self) -> str:
        """Return the next line that it says."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def nod(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL, and wait until it is a zombie; it is not reaped."""
        self.process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)


@contextmanager
def server(*words: object, user: int = 0) -> Iterator[Server]:
    """Start one; it is killed and reaped at the end. user: whom it becomes once it has its modules; 0 for ours."""
    command = [sys.executable, "-m", "tests.supervisor.lock_processes", str(user), *map(str, words)]

    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Server(process)
        finally:
            process.kill()


def _say(word: object) -> None:
    print(word, flush=True)  # noqa: T201


def _wait_for_nod() -> bool:
    return sys.stdin.readline() != ""


async def _hold(state_dir: Path, model: str) -> None:
    try:
        held = await LoadLock(state_dir).acquire(model, 20)
    except LockUnavailable as error:
        _say(error.reason)
        return

    with held:
        _say("held")
        _wait_for_nod()

    _say("released")
    _wait_for_nod()


async def _hold_with_child(state_dir: Path) -> None:
    """Hold, and have a child that inherits every descriptor that can be inherited."""
    with await LoadLock(state_dir).acquire("a", 20):
        _have_child()


def _have_child() -> None:
    with subprocess.Popen(["sleep", "30"], close_fds=False) as child:
        _say(child.pid)
        _wait_for_nod()


async def _race(state_dir: Path, model: str) -> None:
    """At each nod try once; say `held` or the holder, and let go at the next nod."""
    while _wait_for_nod():
        try:
            held = await LoadLock(state_dir).acquire(model, 0)
        except LoadLockBusy:
            holder = find_holder(state_dir)
            _say(holder.pid if holder is not None else "nobody")
            _wait_for_nod()
        else:
            _say("held")
            _wait_for_nod()
            held.release()

        _say("ready")


def _hold_like_older(state_dir: Path, model: str) -> None:
    """Do what the older package does: flock the file and write oneself into it."""
    with open(state_dir / "load.lock", "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "model": model, "time": 1.5}))
        file.flush()
        _say("held")
        _wait_for_nod()


def _reside(state_dir: Path, model: str, ram: str, vram: str, uuid: str = "") -> None:
    device = Device.CUDA if int(vram) else Device.CPU
    resident = Resident(
        model=model,
        kind="serve",
        worker_pid=os.getpid(),
        device=device,
        device_uuid=uuid or None,
        ram_bytes=int(ram),
        vram_bytes=int(vram),
    )

    with announce(state_dir, resident) as announcement:
        _say("resident" if announcement.is_published else "nameless")
        _wait_for_nod()


class _Page:
    """Memory that the contenders of a stress run share: who is inside, how far each is, how often two were inside."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)

    def get(self, slot: int) -> int:
        return int(struct.unpack_from("q", self._memory, slot * 8)[0])

    def put(self, slot: int, value: int) -> None:
        struct.pack_into("q", self._memory, slot * 8, value)


_INSIDE, _FAULTS, _FIRST = 0, 1, 2


def _enter(page: _Page) -> None:
    """Come in. Whoever is still marked as inside must be dead, and must not take the mark away any more."""
    before = page.get(_INSIDE)
    deadline = time.monotonic() + 5

    # The kernel frees the locks of a killed process a moment before it shows the process as ended.
    while before and sight_pid(before) is not Sighting.DEAD:
        if page.get(_INSIDE) != before or time.monotonic() > deadline:
            page.put(_FAULTS, page.get(_FAULTS) + 1)
            break

    page.put(_INSIDE, os.getpid())


def _leave(page: _Page) -> None:
    if page.get(_INSIDE) != os.getpid():
        page.put(_FAULTS, page.get(_FAULTS) + 1)

    page.put(_INSIDE, 0)


async def _contend(page: _Page, state_dir: Path, number: int, rounds: int) -> None:
    lock = LoadLock(state_dir)

    while page.get(_FIRST + number) < rounds:
        with await lock.acquire(f"model-{number}", 30):
            _enter(page)
            os.sched_yield()
            _leave(page)
            page.put(_FIRST + number, page.get(_FIRST + number) + 1)

        await asyncio.sleep(0)


def _fork_contender(page: _Page, state_dir: Path, number: int, rounds: int) -> int:
    pid = os.fork()

    if pid == 0:
        # Whatever happens, nothing of the parent's may go on in the child.
        status = 1

        try:
            asyncio.run(_contend(page, state_dir, number, rounds))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    return pid


def _stress(state_dir: Path, contenders: str, rounds: str, kills: str, unlinks: str) -> None:
    """Let contenders race, kill some of them and delete the lock file under them; say what was seen."""
    load_lock.POLL_S = 0.001
    page = _Page()
    chance = random.Random(7)
    living = {_fork_contender(page, state_dir, number, int(rounds)): number for number in range(int(contenders))}
    kills_left, unlinks_left, failed = int(kills), int(unlinks), 0

    while living:
        time.sleep(chance.uniform(0.0, 0.02))

        if unlinks_left:
            unlinks_left -= 1
            (state_dir / "load.lock").unlink(missing_ok=True)

        if kills_left:
            kills_left -= 1
            os.kill(chance.choice(list(living)), signal.SIGKILL)

        for pid in list(living):
            ended, status = os.waitpid(pid, os.WNOHANG)

            if ended:
                number = living.pop(pid)
                failed += os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0

                if os.WIFSIGNALED(status):
                    living[_fork_contender(page, state_dir, number, int(rounds))] = number

    done = sum(page.get(_FIRST + number) for number in range(int(contenders)))
    _say(
        json.dumps(
            {"rounds": done, "two_inside": page.get(_FAULTS), "failed": failed, "kills": int(kills) - kills_left}
        )
    )


def _sight(state_dir: Path, *pids: str) -> None:
    _say(" ".join(sight_pid(int(pid)) for pid in pids))


def _find_holder(state_dir: Path) -> None:
    _say(find_holder(state_dir))


def _list(state_dir: Path) -> None:
    _say([(record.front.pid, record.resident.model) for record in list_residents(state_dir)])


COMMANDS: dict[str, Callable[..., Coroutine[None, None, None] | None]] = {
    "find-holder": _find_holder,
    "hold": _hold,
    "hold-like-older": _hold_like_older,
    "hold-with-child": _hold_with_child,
    "list": _list,
    "race": _race,
    "reside": _reside,
    "sight": _sight,
    "stress": _stress,
}


def main() -> None:
    """Do what the arguments say."""
    user, command, state_dir, rest = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4:]

    if user:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)

    if (work := COMMANDS[command](state_dir, *rest)) is not None:
        asyncio.run(work)


if __name__ == "__main__":
    main()
