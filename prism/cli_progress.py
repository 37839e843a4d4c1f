"""Shows how far a long command is: a moving bar on a terminal, plain lines elsewhere. Used by `prism pull`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

# What a long function calls: the step that it is in, how much of it is done, and how much there is (None: not known).
ReportProgress = Callable[[str, int, int | None], None]

_PLAIN_STEP_PERCENT = 25


@contextmanager
def show_progress() -> Iterator[ReportProgress]:
    """Give a function to report to, and clean the terminal up afterwards."""
    if not sys.stdout.isatty():
        yield PlainProgress(click.echo)
        return

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())

    with Progress(*columns) as bars:
        yield _Bars(bars)


class PlainProgress:
    """Writes a line when a step begins, and one for each further quarter of it."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._step: str | None = None
        self._told_percent = 0

    def __call__(self, step: str, done: int, total: int | None) -> None:
        """Take a report."""
        if step != self._step:
            self._step, self._told_percent = step, 0
            self._write(f"{step} ...")

        percent = 100 * done // total if total else 0

        if percent >= self._told_percent + _PLAIN_STEP_PERCENT:
            self._told_percent = percent - percent % _PLAIN_STEP_PERCENT
            self._write(f"{step} {percent} %")


class _Bars:
    """One bar for each step, the finished ones stay."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, step: str, done: int, total: int | None) -> None:
        if step not in self._tasks:
            self._tasks[step] = self._bars.add_task(step, total=total)

        self._bars.update(self._tasks[step], completed=done, total=total)
