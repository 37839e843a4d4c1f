"""Watches one worker while it works on something, and tells its owner when it hangs. In the event loop's thread.

As long as messages come, a look costs nothing: the process is looked at from outside only when it sent nothing since the look before,
and not at all while it is idle. A look reads a few files of /proc in place (about 50 µs and 25 µs for each thread; a few milliseconds
once a worker has been silent for a third of its bound). What is judged, and how, is `supervisor.progress_judge`.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol, assert_never

from ipc.messages import Delta, Failed, Finished, FromWorker, Hello, Loaded, LoadFailed, Progress, Rejected, Started
from supervisor.native_call import call_after
from supervisor.process_sample import ProcessSample, read_process
from supervisor.progress_judge import Activity, Hung, HungCause, ProgressJudge, Suspect, Verdict, Working
from supervisor.watch_bounds import WatchBounds

logger = logging.getLogger(__name__)


class ReadProcess(Protocol):
    """Looks at a process from outside; None when it cannot be seen. See `supervisor.process_sample.read_process`."""

    def __call__(self, pid: int, *, with_family: bool) -> ProcessSample | None:
        """Look."""


def no_gpu() -> bool:
    """Tell of no work on a GPU: for workers that run on the CPU."""
    return False


class ProgressWatch:
    """The watch over one process.

    prefill_chunk: most tokens of a slice, as the worker was told (0: the whole prompt).
    on_hung: called once for a hang; the watch then rests. Its owner ends the process.
    is_gpu_busy: whether the worker computes on a GPU right now. Asked at each look; must not block, so it answers from a cache.
    """

    def __init__(
        self,
        pid: int,
        label: str,
        bounds: WatchBounds,
        prefill_chunk: int,
        on_hung: Callable[[Hung], None],
        *,
        is_gpu_busy: Callable[[], bool] = no_gpu,
        read: ReadProcess = read_process,
    ) -> None:
        self._pid = pid
        self._label = label
        self._interval_s = bounds.interval_s
        self._prefill_chunk = prefill_chunk
        self._on_hung = on_hung
        self._is_gpu_busy = is_gpu_busy
        self._read = read
        self._judge = ProgressJudge(bounds)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._has_spoken = False
        self._logged_cause: HungCause | None = None

    def begin(self, activity: Activity) -> None:
        """Watch from now on: called at the spawn (START) and with each Generate that is sent (REQUEST). Hello leads to LOAD by itself."""
        self._judge.begin(activity, self._loop.time())
        self._has_spoken = True
        self._logged_cause = None

        if self._timer is None:
            self._timer = self._loop.call_later(self._interval_s, self._look)

    def on_message(self, message: FromWorker, *, is_idle: bool = True) -> None:
        """Take in a message of the worker that its owner found to be in order.

        is_idle: the end of a request was the end of the last one.
        """
        match message:
            case Delta() | Started() | Progress():
                self._judge.note_message(self._loop.time(), call_after(message, self._prefill_chunk))
                self._has_spoken = True
            case Hello():
                self.begin(Activity.LOAD)
            case Finished() | Rejected() | Failed() if not is_idle:
                self._has_spoken = True
            case Loaded() | LoadFailed() | Finished() | Rejected() | Failed():
                self.rest()
            case _:
                assert_never(message)

    def rest(self) -> None:
        """Expect nothing of the worker: it is idle, is being stopped, has ended, or is held back by ourselves. May be called twice."""
        self._judge.rest()

        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = self._loop.call_later(self._interval_s, self._look)

        if self._has_spoken:
            self._has_spoken = False
            self._logged_cause = None
            return

        sample = self._read_or_none()
        self._act_on(self._judge.observe(self._loop.time(), sample, is_gpu_busy=self._is_gpu_busy()))

    def _read_or_none(self) -> ProcessSample | None:
        """Look. What a kernel shows that nobody foresaw costs this look, and not the server."""
        try:
            return self._read(self._pid, with_family=self._judge.is_silent_long)
        except Exception:  # a parser of foreign text
            logger.exception("[%s] cannot be looked at", self._label)
            return None

    def _act_on(self, verdict: Verdict) -> None:
        match verdict:
            case Working():
                self._logged_cause = None
            case Suspect(cause=cause, text=text):
                # Once for each spell of silence, not at each look.
                if cause is not self._logged_cause:
                    logger.warning("[%s] may hang: %s", self._label, text)
                    self._logged_cause = cause
            case Hung():
                self.rest()
                self._on_hung(verdict)
            case _:
                assert_never(verdict)
