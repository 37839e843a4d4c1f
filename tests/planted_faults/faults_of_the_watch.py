"""Faults of the watch over a worker: hangs that it does not see, and honest work that it takes for one."""

from tests.planted_faults.fault import Fault

_JUDGE = ("tests/supervisor/test_progress_judge.py",)
_WATCH = "tests/supervisor/test_progress_watch.py"

FAULTS = (
    Fault(
        name="watch-kills-idle-workers",
        says="a worker that has nothing to do is judged by the request before, and ended",
        file="supervisor/progress_watch.py",
        text="            case Loaded() | LoadFailed() | Finished() | Rejected() | Failed():\n                self.rest()",
        planted="            case Loaded() | LoadFailed() | Finished() | Rejected() | Failed():\n                pass",
        tests=(f"{_WATCH}::test_an_idle_worker_is_left_alone_even_when_it_is_stopped",),
    ),
    Fault(
        name="watch-not-begun",
        says="a worker is not watched while it works on a request",
        file="supervisor/worker.py",
        text="                self._watch.begin(Activity.REQUEST)",
        planted="                pass",
        tests=("tests/whole/test_hang.py::test_a_worker_that_was_stopped_is_told_within_four_seconds",),
    ),
    Fault(
        name="sigstop-ignored",
        says="a worker that was stopped by a signal counts as one that works",
        file="supervisor/progress_judge.py",
        text='if sample.state in ("T", "t") else 0.0',
        planted='if sample.state in ("t",) else 0.0',
        tests=_JUDGE,
    ),
    Fault(
        name="honest-prefill-taken-for-a-hang",
        says="work on the CPU is no sign of life, so a long slice of a prompt is a hang",
        file="supervisor/progress_judge.py",
        text="if has_worked or evidence.has_read or evidence.came_back or is_gpu_busy:",
        planted="if evidence.has_read or evidence.came_back or is_gpu_busy:",
        tests=(f"{_JUDGE[0]}::test_a_silent_prefill_of_a_minute_is_honest",),
    ),
    Fault(
        name="measured-slices-not-counted",
        says="a slice may take no longer than the least budget, however long those before took",
        file="supervisor/native_call.py",
        text="return max(self._bounds.call_budget_s, self._bounds.budget_factor * expected_s)",
        planted="return self._bounds.call_budget_s",
        tests=("tests/supervisor/test_native_call.py",),
    ),
    Fault(
        name="starved-worker-taken-for-a-hang",
        says="time in which a worker wanted a CPU and got none counts against it",
        file="supervisor/progress_judge.py",
        text="self._call_s += step_s * evidence.cpu_share",
        planted="self._call_s += step_s",
        tests=_JUDGE,
    ),
    Fault(
        name="deadlock-unnoticed",
        says="a worker that does nothing at all is never found",
        file="supervisor/progress_judge.py",
        text="        self._silent_s += step_s\n",
        planted="",
        tests=_JUDGE,
    ),
    Fault(
        name="endless-loop-unnoticed",
        says="a native call that never ends is never found",
        file="supervisor/progress_judge.py",
        text="return _judge(self._call_s, budget_s, HungCause.OVER_BUDGET, text)",
        planted="return Working()",
        tests=_JUDGE,
    ),
    Fault(
        name="front-that-was-away-blames-the-worker",
        says="time in which the server itself was stopped counts against its worker",
        file="supervisor/progress_judge.py",
        text="step_s = min(max(at - self._looked_at, 0.0), 2 * self._bounds.interval_s)",
        planted="step_s = max(at - self._looked_at, 0.0)",
        tests=_JUDGE,
    ),
)
