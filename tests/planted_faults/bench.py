"""A copy of the tree in a temporary folder, into which faults are put, and pytest in it. The checkout is never written to.

Used by `judge.py`. Blocks for as long as the tests take, at most `RUN_S` for each run.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.planted_faults.fault import Fault
from tests.planted_faults.leftovers import end_all_but, own_children, reap

# A fault may well make a test wait for ever, which fails it after this time.
TEST_S = 20
# What hangs in a way that pytest does not get hold of.
RUN_S = 150.0
_POLL_S = 0.02
_NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")


@dataclass(frozen=True, slots=True)
class Run:
    """What pytest said. status: its exit status; None when it did not end in time. failed: tests that failed, by their names."""

    status: int | None
    failed: tuple[str, ...]
    seconds: float
    output: str


class Bench:
    """A context; the copy lives as long as its block."""

    def __init__(self, root: Path) -> None:
        """root: of the tree that is copied."""
        self._root = root
        self._folder = tempfile.TemporaryDirectory(prefix="planted-", ignore_cleanup_errors=True)
        self.tree = Path(self._folder.name) / "tree"
        self._scratch = Path(self._folder.name) / "tmp"

    def __enter__(self) -> Self:
        """Copy the tree."""
        shutil.copytree(self._root, self.tree, symlinks=True, ignore=_NOT_COPIED)
        self._scratch.mkdir()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the copy."""
        self._folder.cleanup()

    @contextlib.contextmanager
    def planted(self, fault: Fault) -> Iterator[None]:
        """Have the fault in the copy for the time of the block. Raises TextNotFound."""
        path = self.tree / fault.file
        faulty = fault.content_in(self.tree)
        sound = path.read_text(encoding="utf-8")
        path.write_text(faulty, encoding="utf-8")

        try:
            yield
        finally:
            path.write_text(sound, encoding="utf-8")

    def run(self, tests: Iterable[str], *flags: str, bound_s: float = RUN_S) -> Run:
        """Run tests of the copy, and end whatever process they leave behind."""
        kept = own_children()
        command = (sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", *flags, *tests)
        output = self._scratch / "pytest.txt"
        began = time.monotonic()

        with output.open("wb") as file:
            process = subprocess.Popen(
                command,
                cwd=self.tree,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

        try:
            status = _wait(process, began + bound_s, kept)
        finally:
            process.kill()
            process.wait()
            end_all_but(kept)
            self._clear(process.pid)

        text = output.read_text(encoding="utf-8", errors="replace")
        return Run(status, tuple(_failed(text)), time.monotonic() - began, text)

    def _environment(self) -> dict[str, str]:
        # Without compiled files: one is told from a newer source by second and size, and a fault may change neither.
        return {
            **os.environ,
            "PYTHONPATH": str(self.tree),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(self._scratch),
        }

    def _clear(self, pid: int) -> None:
        """Remove what a run that failed may leave outside of the scratch folder: the sockets' folders of tests/conftest.py."""
        for folder in Path("/tmp").glob(f"prism-test-{pid}-*"):
            shutil.rmtree(folder, ignore_errors=True)


def _wait(process: "subprocess.Popen[bytes]", deadline: float, kept: set[int]) -> int | None:
    while (status := process.poll()) is None and time.monotonic() < deadline:
        reap(own_children() - kept - {process.pid})
        time.sleep(_POLL_S)

    return status


def _failed(output: str) -> Iterator[str]:
    """Yield the names in pytest's summary."""
    for line in output.splitlines():
        outcome, _, rest = line.partition(" ")

        if outcome in ("FAILED", "ERROR") and "::" in rest:
            yield rest.partition(" - ")[0]
