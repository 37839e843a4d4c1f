"""What the kernel says about processes that it ended for lack of memory: where it says so, and how it is read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.oom_kills import OomWatch, find_counter, find_own_counter, parse_count

EVENTS = "low 0\nhigh 0\nmax 12\noom 2\noom_kill 3\noom_group_kill 0\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [(EVENTS, 3), (CONTROL, 7), ("", None), ("oom 1\n", None), ("oom_kill\n", None), ("oom_kill x\n", None)],
)
def test_the_counter_is_read_and_nothing_else(text: str, count: int | None) -> None:
    assert parse_count(text) == count


def _file(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_file_is_that_of_the_own_group(tmp_path: Path) -> None:
    own = _file(tmp_path / "system.slice" / "prism.service" / "memory.events", EVENTS)
    _file(tmp_path / "memory.events", EVENTS)
    assert find_counter("0::/system.slice/prism.service\n", tmp_path) == own


def test_older_control_groups_have_another_file(tmp_path: Path) -> None:
    own = _file(tmp_path / "memory" / "a" / "memory.oom_control", CONTROL)
    assert find_counter("7:cpu,cpuacct:/a\n4:memory:/a\n0::/\n", tmp_path) == own


def test_a_container_that_sees_its_group_at_the_root_is_found_there(tmp_path: Path) -> None:
    own = _file(tmp_path / "memory.events", EVENTS)
    assert find_counter("0::/../hidden\n", tmp_path) == own
    older = _file(tmp_path / "memory" / "memory.oom_control", CONTROL)
    assert find_counter("4:memory:/docker/0123\n", tmp_path) == older


@pytest.mark.parametrize("groups", ["", "0::/nowhere\n", "garbage", "1:cpu:/\n"])
def test_where_there_is_no_counter_nothing_is_known(tmp_path: Path, groups: str) -> None:
    _file(tmp_path / "memory" / "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n")
    assert find_counter(groups, tmp_path) is None
    watch = OomWatch(None)
    assert not watch.has_killed()


def test_only_a_rise_since_the_last_note_counts(tmp_path: Path) -> None:
    file = _file(tmp_path / "memory.events", EVENTS)
    watch = OomWatch(file)
    assert not watch.has_killed()
    file.write_text(EVENTS.replace("oom_kill 3", "oom_kill 4"))
    assert watch.has_killed()
    watch.note()
    assert not watch.has_killed()
    file.unlink()
    assert not watch.has_killed()


def test_the_kernel_counts_before_the_process_is_gone() -> None:
    """The real thing, where a group with a bound can be made."""
    own = find_own_counter()
    folder = own.parent / f"prism-test-{os.getpid()}" if own is not None else None

    try:
        assert folder is not None
        folder.mkdir()
    except (AssertionError, OSError):
        pytest.skip("no control group can be made here")

    try:
        bound = next(
            (folder / name for name in ("memory.max", "memory.limit_in_bytes") if (folder / name).exists()), None
        )

        if bound is None:
            pytest.skip("the group has no bound of memory")

        bound.write_text(str(48 << 20))
        counter = folder / ("memory.events" if bound.name == "memory.max" else "memory.oom_control")
        watch = OomWatch(counter)
        code = "import sys; open(sys.argv[1], 'w').write('0'); taken = [b'x' * (1 << 20) for _ in range(512)]"
        done = subprocess.run((sys.executable, "-S", "-c", code, str(folder / "cgroup.procs")), timeout=30, check=False)
        assert done.returncode == -9
        assert watch.has_killed()
    finally:
        folder.rmdir()
