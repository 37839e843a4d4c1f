"""Whether a worker that works on something still gets on. Pure: messages and looks from outside go in, a verdict comes out.

Judged by progress, never by latency, and never while idle. Three ways to be hung, each with its own clock:

- stopped: somebody stopped the process, and it stays so;
- stalled: no message, no CPU time, no wish for any, no disk read, no work on the GPU (a deadlock in native code);
- over budget: it works, but the one native call that it is in never ends (an endless loop). This clock runs only as far as the process
  had a CPU, and not while it reads from a disk, so honest work on a busy machine or with too little memory is not killed.

The clocks count time that was watched: a gap between two looks is the front's fault and counts as two intervals at most.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from supervisor.native_call import LOAD, PREPARE, CallTimes, NativeCall
from supervisor.process_sample import ProcessSample
from supervisor.watch_bounds import WatchBounds
from supervisor.work_evidence import NOTHING_KNOWN, WorkEvidence, compare

# Work counts as a sign of life when it is more than a thread's that wakes up now and then to find nothing to do.
_LEAST_WORK_S = 0.02
_LEAST_WORK_SHARE = 0.02


class Activity(StrEnum):
    """What the worker is expected to do."""

    START = "start"  # from spawn to Hello
    LOAD = "load"  # from Hello to Loaded
    REQUEST = "request"  # from Generate to its end


class HungCause(StrEnum):
    """Why a worker counts as hung."""

    STOPPED = "stopped"
    STALLED = "stalled"
    OVER_BUDGET = "over_budget"


@dataclass(frozen=True, slots=True)
class Working:
    """It gets on, as far as anybody can tell."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """Half of a bound is used up. Worth a line in the log, no more."""

    cause: HungCause
    text: str


@dataclass(frozen=True, slots=True)
class Hung:
    """It does not get on, and will not. text: fit for a client to read."""

    cause: HungCause
    text: str


Verdict: TypeAlias = Working | Suspect | Hung

_DOING = {Activity.START: "starting", Activity.LOAD: "loading the model", Activity.REQUEST: "working on a request"}


class ProgressJudge:
    """Judges one worker for life. The caller gives the time of each event, from one monotonic clock."""

    def __init__(self, bounds: WatchBounds) -> None:
        self._bounds = bounds
        self._times = CallTimes(bounds)
        self._activity: Activity | None = None
        self._call = PREPARE
        self._call_began_at = 0.0
        self._looked_at = 0.0
        self._sample: ProcessSample | None = None
        self._stopped_s = 0.0
        self._silent_s = 0.0
        self._unrewarded_work_s = 0.0
        self._call_s = 0.0

    @property
    def is_watching(self) -> bool:
        """Whether something is expected of the worker."""
        return self._activity is not None

    @property
    def is_silent_long(self) -> bool:
        """Whether it is time to look more closely, at a price."""
        return self._activity is not None and self._silent_s * 3 >= self._stall_s(self._activity)

    def begin(self, activity: Activity, at: float) -> None:
        """From now on the worker is expected to get on with this."""
        self._activity = activity
        self._restart_clocks(LOAD if activity is Activity.LOAD else PREPARE, at)

    def rest(self) -> None:
        """Nothing is expected of the worker any more; it may be silent for ever."""
        self._activity = None

    def note_message(self, at: float, next_call: NativeCall | None) -> None:
        """Take in that a message came. next_call: what the worker does now, see `call_after`; None when that is not known."""
        if self._activity is None:
            return

        self._times.note(self._call, max(at - self._call_began_at, 0.0))
        self._restart_clocks(next_call or self._call, at)

    def _restart_clocks(self, call: NativeCall, at: float) -> None:
        self._call = call
        self._call_began_at = at
        self._looked_at = at
        self._sample = None
        self._stopped_s = 0.0
        self._silent_s = 0.0
        self._unrewarded_work_s = 0.0
        self._call_s = 0.0

    def observe(self, at: float, sample: ProcessSample | None, *, is_gpu_busy: bool = False) -> Verdict:
        """Take in one look from outside, and judge. Only between `begin` and `rest`.

        sample: None when the process cannot be seen; then only the budget of the call judges.
        is_gpu_busy: the worker computes on a GPU right now; a call that waits for one needs no CPU.
        """
        assert self._activity is not None, "an idle worker is never judged"
        step_s = min(max(at - self._looked_at, 0.0), 2 * self._bounds.interval_s)
        before, self._sample = self._sample, sample
        self._looked_at = at
        evidence = compare(before, sample, step_s) if before is not None and sample is not None else NOTHING_KNOWN
        self._count_call(evidence, step_s, self._activity)

        if sample is not None:
            self._stopped_s = self._stopped_s + step_s if sample.state in ("T", "t") else 0.0
            self._count_silence(evidence, step_s, is_gpu_busy=is_gpu_busy)

        return self._verdict(self._activity)

    def _count_call(self, evidence: WorkEvidence, step_s: float, activity: Activity) -> None:
        # An endless loop reads nothing. It may take memory, but a load that does is a load.
        is_getting_on = evidence.has_read or (activity is not Activity.REQUEST and evidence.has_grown)

        if not is_getting_on:
            self._call_s += step_s * evidence.cpu_share

    def _count_silence(self, evidence: WorkEvidence, step_s: float, *, is_gpu_busy: bool) -> None:
        self._silent_s += step_s
        self._unrewarded_work_s += evidence.work_s
        has_worked = self._unrewarded_work_s >= max(_LEAST_WORK_S, _LEAST_WORK_SHARE * self._silent_s)

        if has_worked or evidence.has_read or evidence.came_back or is_gpu_busy:
            self._silent_s = 0.0
            self._unrewarded_work_s = 0.0

    def _verdict(self, activity: Activity) -> Verdict:
        stopped = self._judge_stopped()
        clocks = (stopped, self._judge_stalled(activity), self._judge_budget(activity))
        hung = next((verdict for verdict in clocks if isinstance(verdict, Hung)), None)
        return hung or next((verdict for verdict in clocks if isinstance(verdict, Suspect)), None) or Working()

    def _judge_stopped(self) -> Verdict:
        text = f"the worker was stopped by a signal and has not gone on for {self._stopped_s:.1f} s"
        return _judge(self._stopped_s, self._bounds.stopped_s, HungCause.STOPPED, text)

    def _judge_stalled(self, activity: Activity) -> Verdict:
        bound_s = self._stall_s(activity)
        text = f"the worker was {_DOING[activity]} and showed no sign of work for {self._silent_s:.1f} s"
        return _judge(self._silent_s, bound_s, HungCause.STALLED, text)

    def _stall_s(self, activity: Activity) -> float:
        bounds = self._bounds
        stall_s = bounds.load_stall_s if activity is Activity.LOAD else bounds.request_stall_s
        is_in_kernel = self._sample is not None and self._sample.is_in_kernel
        return max(stall_s, bounds.kernel_wait_s) if is_in_kernel else stall_s

    def _judge_budget(self, activity: Activity) -> Verdict:
        budget_s = self._times.budget_s(self._call)
        text = (
            f"the worker was {_DOING[activity]} and did not come back from one call ({self._call.kind}) within {self._call_s:.1f} s "
            f"of its own time; its budget is {budget_s:.1f} s"
        )
        return _judge(self._call_s, budget_s, HungCause.OVER_BUDGET, text)


def _judge(used_s: float, bound_s: float, cause: HungCause, text: str) -> Verdict:
    if used_s >= bound_s:
        return Hung(cause, text)

    return Suspect(cause, text) if used_s * 2 >= bound_s else Working()
