"""A child from spawn to reaped, with real processes."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import psutil
import pytest

import supervisor.child_process
from supervisor.child_process import LAST_LINE_CHARACTERS, OUTPUT_RING_BYTES, ChildProcess, Unkillable

# Python takes 20 ms to start without its site, and says when it is there.
PYTHON = (sys.executable, "-I", "-S", "-c")


class Child:
    """A ChildProcess whose exits are noted."""

    def __init__(self, command: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self.exits: list[int] = []
        self.process = ChildProcess(command, environment or dict(os.environ), (), "child", self.exits.append)

    async def exited(self) -> int:
        return await asyncio.wait_for(asyncio.shield(self.process.exited), 10)

    async def wrote(self, line: str) -> None:
        async with asyncio.timeout(10):
            while self.process.last_line != line:
                await asyncio.sleep(0.002)


def wait_dead(child: Child) -> None:
    """Wait for the end without a turn of the loop, so that nobody in the loop has been told then."""
    deadline = time.monotonic() + 5

    while child.process.is_running:
        assert time.monotonic() < deadline


Start = Callable[..., Child]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Return a function that starts a child; what still runs at the end is killed."""
    children: list[Child] = []

    def start(*command: str) -> Child:
        children.append(Child(command))
        return children[-1]

    yield start

    for child in children:
        child.process.kill()
        await child.exited()


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9), ("kill -11 $$", -11)])
async def test_the_end_is_told_once_with_its_status_and_no_zombie_stays(start: Start, script: str, status: int) -> None:
    child = start("/bin/sh", "-c", script)
    pid = child.process.pid
    assert await child.exited() == status
    await asyncio.sleep(0.02)

    assert child.exits == [status]
    assert not psutil.pid_exists(pid)
    assert not child.process.is_running


async def test_a_running_child_is_running_and_a_dead_one_is_not_before_it_was_told(start: Start) -> None:
    child = start("/bin/sleep", "100")
    seen = [child.process.is_running]
    os.kill(child.process.pid, signal.SIGKILL)
    wait_dead(child)
    seen.append(child.process.is_running)

    assert seen == [True, False]
    assert not child.process.exited.done()
    assert await child.exited() == -9


async def test_output_of_a_process_that_ends_at_once_is_complete(start: Start) -> None:
    for number in range(100):
        child = start("/bin/sh", "-c", f"echo first; echo last {number} >&2; exit 1")
        await child.exited()
        assert child.process.last_line == f"last {number}"


async def test_a_flood_stops_nobody_and_only_its_end_is_kept(start: Start) -> None:
    child = start(*PYTHON, "import os\nfor _ in range(300): os.write(2, b'x' * 65536)\nos.write(1, b'\\nthe end\\n')")
    assert await child.exited() == 0
    assert child.process.last_line == "the end"
    assert len(child.process._output) == OUTPUT_RING_BYTES


async def test_a_full_pipe_left_behind_is_read_to_its_end(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    # So that it takes many reads, and the end is told after the first.
    monkeypatch.setattr(supervisor.child_process, "_READ_BYTES", 4096)
    child = start(*PYTHON, "import os\nos.write(1, b'y' * 60000 + b'\\nlast')")
    wait_dead(child)
    await child.exited()
    assert child.process.last_line == "last"


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (b"", ""),
        (b"\n \n\t\n", ""),
        (b"one\ntwo\n\n  \n", "two"),
        (b"  padded  \r\n", "padded"),
        (b"10%\r20%\r30%", "30%"),
        (b"caf\xe9 \xff\xfe end", "caf\ufffd \ufffd\ufffd end"),
        ("größer 漢字 🙂\n".encode(), "größer 漢字 🙂"),
        (b"\x1b[31mred\x1b[0m a\x00b\x07c\n", "[31mred [0m a b c"),
        (b"words\n\x1b\x00\n", "words"),
        (b"x" * 3000, "x" * LAST_LINE_CHARACTERS),
        (b"safe\xe2\x80\xaetxet\n", "safe txet"),
        (
            b"Current thread 0x00007f12ab34cd56 (most recent call first):",
            "Current thread (address) (most recent call first):",
        ),
    ],
    ids=[
        "none",
        "blank",
        "blank after",
        "padding",
        "progress",
        "bytes",
        "unicode",
        "control",
        "only control",
        "long",
        "bidi",
        "address",
    ],
)
async def test_the_last_line_is_one_printable_line(start: Start, tmp_path: Path, output: bytes, line: str) -> None:
    file = tmp_path / "output"
    file.write_bytes(output)
    child = start("/bin/cat", str(file))
    await child.exited()
    assert child.process.last_line == line


async def test_a_ring_that_begins_inside_a_character_is_no_error(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "output"
    file.write_bytes("漢".encode() * OUTPUT_RING_BYTES + b"!\nend")
    child = start("/bin/cat", str(file))
    await child.exited()
    assert child.process.last_line == "end"


async def test_closing_its_output_does_not_end_a_child_or_spin_the_loop(start: Start) -> None:
    child = start("/bin/sh", "-c", "echo ready; exec >&- 2>&-; exec sleep 100")
    await child.wrote("ready")
    before = time.process_time()
    await asyncio.sleep(0.1)
    assert time.process_time() - before < 0.09
    assert child.process.is_running


async def test_stop_ends_a_child_within_its_grace(start: Start) -> None:
    child = start("/bin/sleep", "100")
    assert await child.process.stop(5, 5) == -signal.SIGTERM
    await asyncio.sleep(0.02)
    assert child.exits == [-signal.SIGTERM]


IGNORES_TERM = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


async def test_a_child_that_ignores_sigterm_is_killed_after_the_grace(start: Start) -> None:
    child = start("/bin/sh", "-c", IGNORES_TERM)
    await child.wrote("ready")
    before = time.monotonic()
    assert await child.process.stop(0.1, 5) == -signal.SIGKILL
    assert 0.1 <= time.monotonic() - before < 2


async def test_a_grandchild_that_ignores_sigterm_goes_too(start: Start) -> None:
    child = start("/bin/sh", "-c", "(trap '' TERM; exec sleep 100) & echo $!; trap '' TERM; wait")
    await until(lambda: child.process.last_line.isdigit())
    grandchild = int(child.process.last_line)
    await child.process.stop(0.05, 5)
    await until(lambda: is_gone(grandchild))


async def test_a_grandchild_goes_when_the_child_ends_by_itself(start: Start) -> None:
    child = start("/bin/sh", "-c", "(trap '' TERM; exec sleep 100) & echo $!")
    # The grandchild holds the output open; that must not hold up the news of the end.
    assert await child.exited() == 0
    await until(lambda: is_gone(int(child.process.last_line)))


async def test_a_grandchild_that_left_the_group_and_writes_for_ever_holds_nobody_up(start: Start) -> None:
    writer = "import os, sys\nos.setsid()\nprint(os.getpid(), flush=True)\nwhile True: os.write(1, b'z' * 4096)"
    child = start(
        *PYTHON,
        f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-I', '-S', '-c', {writer!r}])\ntime.sleep(0.3)",
    )
    await asyncio.sleep(0.1)
    family = psutil.Process(child.process.pid).children()
    assert await child.exited() == 0
    # Its pipe has no reader any more, so its next write ends it.
    await until(lambda: all(is_gone(process.pid) for process in family))


async def test_a_stopped_child_is_killed(start: Start) -> None:
    child = start("/bin/sleep", "100")
    os.kill(child.process.pid, signal.SIGSTOP)
    assert await asyncio.wait_for(child.process.stop(0.05, 5), 5) in (-signal.SIGKILL, -signal.SIGTERM)


async def test_stopping_a_child_that_has_ended_gives_its_own_status(start: Start) -> None:
    child = start("/bin/sh", "-c", "exit 3")
    await child.exited()
    assert await child.process.stop(5, 5) == 3
    child.process.kill()
    assert child.exits == [3]


async def test_stopping_a_child_that_is_dead_but_not_reaped_gives_its_own_status(start: Start) -> None:
    child = start("/bin/sh", "-c", "exit 3")
    wait_dead(child)
    assert await child.process.stop(5, 5) == 3
    await asyncio.sleep(0)
    assert child.exits == [3]


async def test_two_who_stop_at_once_get_the_same_answer(start: Start) -> None:
    child = start("/bin/sleep", "100")
    statuses = await asyncio.gather(child.process.stop(5, 5), child.process.stop(0, 5))
    assert statuses[0] == statuses[1]
    await asyncio.sleep(0)
    assert len(child.exits) == 1


async def test_one_who_leaves_while_stopping_disturbs_nobody(start: Start) -> None:
    child = start("/bin/sh", "-c", IGNORES_TERM)
    await child.wrote("ready")
    leaving = asyncio.create_task(child.process.stop(5, 5))
    await asyncio.sleep(0.02)
    leaving.cancel()
    await asyncio.wait({leaving})
    assert leaving.cancelled()
    assert await child.process.stop(0.02, 5) == -signal.SIGKILL


async def test_a_child_that_does_not_end_in_time_is_said_to_be_unkillable(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = start("/bin/sleep", "100")

    with monkeypatch.context() as patch:
        # No process survives SIGKILL on demand, so none is sent.
        patch.setattr(ChildProcess, "_signal_group", lambda _, __: None)

        with pytest.raises(Unkillable, match=str(child.process.pid)):
            await child.process.stop(0.01, 0.01)

    assert child.process.is_running
    assert await child.process.stop(5, 5) == -signal.SIGTERM
    await asyncio.sleep(0)
    assert len(child.exits) == 1


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("command", "error"),
    [("/nowhere/at-all", FileNotFoundError), ("/etc/passwd", PermissionError)],
)
async def test_a_refused_spawn_leaves_nothing(command: str, error: type[OSError]) -> None:
    before = _descriptors()

    with pytest.raises(error):
        Child((command,))

    assert _descriptors() == before
    assert psutil.Process().children() == []


async def test_a_child_that_cannot_be_watched_does_not_live(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _descriptors()
    spawned: list[int] = []

    def refuse(pid: int) -> int:
        spawned.append(pid)
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", refuse)

    with pytest.raises(OSError, match="Too many"):
        Child(("/bin/sleep", "100"))

    assert _descriptors() == before
    assert spawned
    assert not psutil.pid_exists(spawned[0])


async def test_a_child_inherits_no_descriptor_terminal_or_folder_of_ours(start: Start) -> None:
    secret_fd, other_fd = os.pipe()
    os.set_inheritable(secret_fd, True)

    try:
        child = start(
            "/bin/sh", "-c", "echo $(ls /proc/$$/fd | sort -n | tr '\\n' ' ') $(pwd) $(readlink /proc/$$/fd/0)"
        )
        await child.exited()
        # Besides the three standard ones the shell may have a descriptor of its own, but never ours.
        *fds, folder, stdin = child.process.last_line.split()
        assert str(secret_fd) not in fds
        assert (folder, stdin) == ("/", "/dev/null")
    finally:
        os.close(secret_fd)
        os.close(other_fd)


async def test_a_child_has_a_session_of_its_own(start: Start) -> None:
    child = start("/bin/sleep", "100")
    assert os.getsid(child.process.pid) == child.process.pid
    assert os.getpgid(child.process.pid) == child.process.pid


async def test_a_hundred_children_leave_no_descriptor(start: Start) -> None:
    before = _descriptors()

    for _ in range(100):
        child = Child(("/bin/true",))
        await child.exited()

    assert psutil.Process().children() == []
    assert _descriptors() == before
