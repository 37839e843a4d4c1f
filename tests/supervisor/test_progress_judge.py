"""Hung or not, with made-up looks and a made-up clock. F07 to F10, and cases 13 to 15."""

import math
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.native_call import TOKEN, CallKind, NativeCall
from supervisor.process_sample import ProcessSample, ThreadSample
from supervisor.progress_judge import Activity, Hung, HungCause, ProgressJudge, Suspect, Verdict, Working
from supervisor.watch_bounds import WatchBounds

_STEP_S = 0.5
_ACTIVITIES = st.sampled_from(Activity)


_ASLEEP = ProcessSample(
    state="S",
    cpu_s=1.0,
    threads={7: ThreadSample(is_runnable=False)},
    is_in_kernel=False,
    read_bytes=0,
    major_faults=0,
    resident_bytes=50 << 20,
)


@dataclass
class Bench:
    """A judge, and a process with one thread that does what the test says, looked at each half second.

    counts_waits: whether the kernel keeps figures of each thread.
    """

    bounds: WatchBounds = field(default_factory=WatchBounds)
    now: float = 100.0
    counts_waits: bool = True
    sample: ProcessSample = _ASLEEP

    def __post_init__(self) -> None:
        self.judge = ProgressJudge(self.bounds)

    def slice(self, tokens: int = 128) -> None:
        self.judge.note_message(self.now, NativeCall(CallKind.SLICE, tokens))

    def token(self) -> None:
        self.judge.note_message(self.now, TOKEN)

    def live(
        self,
        seconds: float,
        *,
        state: str = "S",
        cpu: float = 0.0,
        waits: float = 0.0,
        reads: int = 0,
        grows: int = 0,
        slices: int = 0,
        runnable: bool = False,
        gpu: bool = False,
    ) -> Verdict:
        """Let time pass, with these shares of a CPU and of waiting for one, and so many slices of a CPU a second.

        Returns the last verdict, or the first Hung.
        """
        verdict: Verdict = Working()
        ends_at = self.now + seconds

        while self.now < ends_at - 1e-9:
            step_s = min(_STEP_S, ends_at - self.now)
            self.now += step_s
            before = self.sample
            self.sample = replace(
                before,
                state=state,
                cpu_s=before.cpu_s + cpu * step_s,
                threads={7: self._thread(step_s, cpu, waits, slices, runnable)},
                is_in_kernel=state == "D",
                read_bytes=(before.read_bytes or 0) + reads,
                resident_bytes=before.resident_bytes + grows,
            )
            verdict = self.judge.observe(self.now, self.sample, is_gpu_busy=gpu)

            if isinstance(verdict, Hung):
                break

        return verdict

    def _thread(self, step_s: float, cpu: float, waits: float, slices: int, runnable: bool) -> ThreadSample:
        if not self.counts_waits:
            return ThreadSample(runnable)

        before = self.sample.threads[7]
        return ThreadSample(
            runnable,
            before.cpu_s + cpu * step_s,
            before.waited_s + waits * step_s,
            before.slices + math.ceil(slices * step_s),
        )


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.judge.begin(Activity.REQUEST, bench.now)
    return bench


def _is_hung(verdict: Verdict, cause: HungCause) -> bool:
    return isinstance(verdict, Hung) and verdict.cause is cause


def test_a_stopped_process_is_hung_after_three_seconds(bench: Bench) -> None:
    assert isinstance(bench.live(2.9, state="T"), Suspect)
    assert _is_hung(bench.live(0.5, state="T"), HungCause.STOPPED)
    assert bench.now <= 104


@pytest.mark.parametrize("activity", Activity)
def test_a_stopped_process_is_hung_whatever_it_does(activity: Activity) -> None:
    bench = Bench()
    bench.judge.begin(activity, bench.now)

    assert _is_hung(bench.live(10, state="t"), HungCause.STOPPED)


def test_one_that_goes_on_within_two_seconds_is_not(bench: Bench) -> None:
    for _ in range(20):
        assert not isinstance(bench.live(2, state="T"), Hung)
        assert not isinstance(bench.live(1, cpu=1.0, runnable=True), Hung)
        bench.slice()


def test_stops_that_lie_apart_do_not_add_up(bench: Bench) -> None:
    bench.slice()

    for _ in range(10):
        assert not isinstance(bench.live(2, state="T"), Hung)
        assert not isinstance(bench.live(1, cpu=1.0, runnable=True), Hung)


def test_a_deadlock_in_a_request_is_found_after_fifteen_seconds(bench: Bench) -> None:
    bench.live(3, cpu=1.0, runnable=True)
    began_at = bench.now
    verdict = bench.live(60)

    assert _is_hung(verdict, HungCause.STALLED)
    assert bench.now - began_at <= 17
    assert isinstance(verdict, Hung)
    assert "was working on a request and showed no sign of work for 15.0 s" in verdict.text


def test_a_deadlock_in_a_load_is_found_after_a_minute(bench: Bench) -> None:
    bench.judge.begin(Activity.LOAD, bench.now)

    assert not isinstance(bench.live(59), Hung)
    assert _is_hung(bench.live(1.5), HungCause.STALLED)


def test_a_thread_that_wakes_up_now_and_then_does_not_hide_a_deadlock(bench: Bench) -> None:
    # As measured for a Python thread that waits for the interpreter lock, beside six busy processes.
    assert _is_hung(bench.live(17, cpu=0.003, waits=0.29, slices=144), HungCause.STALLED)


def test_nor_does_it_on_a_quiet_machine(bench: Bench) -> None:
    assert _is_hung(bench.live(17, cpu=0.0072, waits=0.016, slices=192), HungCause.STALLED)


def test_a_look_that_meets_such_a_thread_in_the_run_queue_does_not_either(bench: Bench) -> None:
    bench.live(7)
    bench.live(0.5, runnable=True)

    assert _is_hung(bench.live(9), HungCause.STALLED)


def test_half_a_bound_is_told_before_the_whole_one_is_used_up(bench: Bench) -> None:
    assert bench.live(7) == Working()
    verdict = bench.live(1)

    assert isinstance(verdict, Suspect)
    assert verdict.cause is HungCause.STALLED


def test_a_silent_prefill_of_a_minute_is_honest(bench: Bench) -> None:
    bench.slice()

    assert not isinstance(bench.live(60, cpu=1.9, runnable=True), Hung)


def test_the_whole_prompt_in_one_call_may_take_an_hour(bench: Bench) -> None:
    bench.slice(tokens=8000)

    assert not isinstance(bench.live(3600, cpu=1.0, runnable=True), Hung)


def test_ever_slower_slices_are_honest(bench: Bench) -> None:
    seconds = 5.0

    # Far past what a slice may take before any was measured.
    while seconds < 1000:
        bench.slice()
        assert not isinstance(bench.live(seconds, cpu=1.0, runnable=True), Hung)
        seconds *= 1.5


def test_an_answer_of_six_minutes_is_honest(bench: Bench) -> None:
    """Case 15: progress resets the clock, and no total counts."""
    for _ in range(72):
        bench.token()
        assert not isinstance(bench.live(5, cpu=1.0, runnable=True), Hung)


def test_a_saturated_worker_is_slow_and_not_hung(bench: Bench) -> None:
    """Case 14: what counts is that it moves, not how fast."""
    bench.slice()

    for _ in range(30):
        bench.token()
        assert not isinstance(bench.live(20, cpu=0.01, waits=0.9, slices=4), Hung)


def test_an_endless_loop_ends_with_its_budget(bench: Bench) -> None:
    bench.slice()
    bench.live(1, cpu=1.0, runnable=True)
    bench.token()
    bench.live(0.1, cpu=1.0, runnable=True)
    bench.token()
    began_at = bench.now

    assert _is_hung(bench.live(600, cpu=1.0, runnable=True), HungCause.OVER_BUDGET)
    assert 30 <= bench.now - began_at <= 32


def test_an_endless_loop_in_an_unmeasured_slice_ends_too(bench: Bench) -> None:
    bench.slice()

    assert _is_hung(bench.live(300, cpu=2.0, runnable=True), HungCause.OVER_BUDGET)


def test_a_starved_worker_is_not_hung_however_long_it_takes(bench: Bench) -> None:
    """No CPU at all for minutes at a time: it stands in the run queue, and the wait is only counted when it ends."""
    bench.slice()

    for _ in range(10):
        assert not isinstance(bench.live(300, runnable=True), Hung)
        bench.live(0.5, cpu=0.02, waits=600, slices=2, runnable=True)


def test_a_starved_worker_whose_waits_nobody_counts_is_not_hung(bench: Bench) -> None:
    bench.counts_waits = False
    bench.slice()

    assert not isinstance(bench.live(600, runnable=True), Hung)


def test_a_starved_worker_is_budgeted_by_its_own_time(bench: Bench) -> None:
    bench.token()

    # One percent of a CPU: 30 s of its own take 50 minutes.
    assert not isinstance(bench.live(2900, cpu=0.01, waits=0.99, slices=4, runnable=True), Hung)
    assert _is_hung(bench.live(200, cpu=0.01, waits=0.99, slices=4, runnable=True), HungCause.OVER_BUDGET)


def test_a_load_that_reads_for_hours_is_honest(bench: Bench) -> None:
    bench.judge.begin(Activity.LOAD, bench.now)

    assert not isinstance(bench.live(3 * 3600, state="D", cpu=0.01, reads=100_000), Hung)


def test_a_load_that_computes_and_takes_memory_for_hours_is_honest(bench: Bench) -> None:
    bench.judge.begin(Activity.LOAD, bench.now)

    assert not isinstance(bench.live(3 * 3600, cpu=1.0, runnable=True, grows=2 << 20), Hung)


def test_an_endless_loop_in_a_load_ends_after_half_an_hour(bench: Bench) -> None:
    bench.judge.begin(Activity.LOAD, bench.now)

    assert not isinstance(bench.live(1790, cpu=1.0, runnable=True), Hung)
    assert _is_hung(bench.live(20, cpu=1.0, runnable=True), HungCause.OVER_BUDGET)


def test_a_model_that_does_not_fit_into_memory_is_slow_and_not_hung(bench: Bench) -> None:
    """Each token reads the weights from the disk again."""
    bench.token()

    assert not isinstance(bench.live(600, state="D", cpu=0.05, reads=50_000_000), Hung)


def test_a_request_that_takes_memory_without_end_is_not_saved_by_it(bench: Bench) -> None:
    bench.token()

    assert _is_hung(bench.live(40, cpu=1.0, runnable=True, grows=2 << 20), HungCause.OVER_BUDGET)


def test_a_disk_that_comes_back_after_half_a_minute_is_waited_for(bench: Bench) -> None:
    bench.slice()

    for _ in range(5):
        assert not isinstance(bench.live(30, state="D"), Hung)
        assert not isinstance(bench.live(10), Hung)


def test_a_disk_that_does_not_come_back_is_given_up_after_a_minute(bench: Bench) -> None:
    bench.slice()

    assert not isinstance(bench.live(59, state="D"), Hung)
    assert _is_hung(bench.live(2, state="D"), HungCause.STALLED)


def test_work_on_a_gpu_needs_no_cpu(bench: Bench) -> None:
    bench.slice()

    assert not isinstance(bench.live(60, gpu=True), Hung)
    assert _is_hung(bench.live(17), HungCause.STALLED)


def test_a_process_that_cannot_be_seen_is_judged_by_its_budget_alone(bench: Bench) -> None:
    bench.token()
    verdict: Verdict = Working()
    looks = 0

    while not isinstance(verdict, Hung):
        bench.now += _STEP_S
        looks += 1
        verdict = bench.judge.observe(bench.now, None)

    assert verdict.cause is HungCause.OVER_BUDGET
    assert looks * _STEP_S == 30


def test_a_front_that_was_away_does_not_blame_the_worker(bench: Bench) -> None:
    """The front was stopped for an hour, or had no CPU: what came meanwhile is not read yet."""
    bench.live(10)
    bench.now += 3600

    assert not isinstance(bench.live(0.5), Hung)


def test_an_idle_worker_is_never_judged(bench: Bench) -> None:
    bench.judge.rest()

    assert not bench.judge.is_watching
    bench.slice()
    assert not bench.judge.is_watching

    with pytest.raises(AssertionError, match="idle"):
        bench.judge.observe(bench.now, bench.sample)


def test_what_was_counted_before_a_rest_does_not_count_after_it(bench: Bench) -> None:
    bench.live(14)
    bench.judge.rest()
    bench.now += 1000
    bench.judge.begin(Activity.REQUEST, bench.now)

    assert bench.live(7) == Working()


def test_it_is_looked_at_more_closely_after_a_third_of_the_bound(bench: Bench) -> None:
    bench.live(4.5)
    assert not bench.judge.is_silent_long
    bench.live(0.5)
    assert bench.judge.is_silent_long
    bench.judge.rest()
    assert not bench.judge.is_silent_long


@settings(max_examples=40)
@given(activity=_ACTIVITIES, gaps=st.lists(st.floats(min_value=0.01, max_value=14), max_size=60))
def test_whoever_sends_something_within_each_bound_is_never_stalled(activity: Activity, gaps: list[float]) -> None:
    bench = Bench()
    bench.judge.begin(activity, bench.now)

    for gap in gaps:
        assert not isinstance(bench.live(gap), Hung)
        bench.token()


@settings(max_examples=40)
@given(
    activity=_ACTIVITIES,
    parts=st.lists(
        st.tuples(
            st.floats(min_value=0.5, max_value=12),
            st.sampled_from(["compute", "starve", "read", "gpu"]),
            st.floats(min_value=0.05, max_value=4),
        ),
        max_size=20,
    ),
)
def test_whoever_works_in_any_way_is_never_stalled(activity: Activity, parts: list[tuple[float, str, float]]) -> None:
    bench = Bench()
    bench.judge.begin(activity, bench.now)

    for silence_s, how, share in parts:
        verdicts = [bench.live(silence_s)]

        match how:
            case "compute":
                verdicts.append(bench.live(2, cpu=share, runnable=True))
            case "starve":
                verdicts.append(bench.live(2, cpu=0.005, waits=0.9, slices=2))
            case "read":
                verdicts.append(bench.live(2, reads=4096))
            case _:
                verdicts.append(bench.live(2, gpu=True))

        assert not any(_is_hung(verdict, HungCause.STALLED) for verdict in verdicts)


@given(activity=_ACTIVITIES, steps=st.lists(st.floats(min_value=0.001, max_value=30), min_size=1, max_size=300))
def test_whoever_does_nothing_is_found_whenever_it_is_looked_at(activity: Activity, steps: list[float]) -> None:
    bench = Bench()
    bench.judge.begin(activity, bench.now)
    watched_s = 0.0
    bound_s = 60.0 if activity is Activity.LOAD else 15.0

    for step in steps:
        bench.now += step
        watched_s += min(step, 2 * bench.bounds.interval_s)
        verdict = bench.judge.observe(bench.now, bench.sample)
        # A rounding error either way is no matter.
        assert isinstance(verdict, Hung) or watched_s < bound_s + 1e-6
        assert not isinstance(verdict, Hung) or watched_s > bound_s - 1e-6

        if isinstance(verdict, Hung):
            break
