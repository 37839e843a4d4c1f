"""What two looks at a process say."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.process_sample import ProcessSample, ThreadSample
from supervisor.work_evidence import NOTHING_KNOWN, compare

_STEP_S = 0.5
_ASLEEP = ThreadSample(is_runnable=False, cpu_s=5.0, waited_s=1.0, slices=100)
_STILL = ProcessSample(
    state="S",
    cpu_s=5.0,
    threads={7: _ASLEEP},
    is_in_kernel=False,
    read_bytes=4096,
    major_faults=3,
    resident_bytes=100 << 20,
)
_FIGURES = st.floats(min_value=0, max_value=1e9)
_COUNTS = st.integers(min_value=0, max_value=1 << 50)
_SAMPLES = st.builds(
    ProcessSample,
    state=st.sampled_from("RSDTtZ"),
    cpu_s=_FIGURES,
    threads=st.dictionaries(
        st.integers(1, 4), st.builds(ThreadSample, st.booleans(), _FIGURES, _FIGURES, _COUNTS), max_size=4
    ),
    is_in_kernel=st.booleans(),
    read_bytes=st.none() | _COUNTS,
    major_faults=_COUNTS,
    resident_bytes=_COUNTS,
    family_cpu_s=st.none() | _FIGURES,
)


def _with_thread(thread: ThreadSample, cpu_s: float = 5.0) -> ProcessSample:
    return replace(_STILL, cpu_s=cpu_s, threads={7: thread})


def test_a_process_that_did_nothing_shows_nothing() -> None:
    assert compare(_STILL, _STILL, _STEP_S) == NOTHING_KNOWN


def test_cpu_time_is_work_and_a_full_share() -> None:
    evidence = compare(_STILL, replace(_STILL, cpu_s=5.5), _STEP_S)

    assert (evidence.work_s, evidence.cpu_share) == (0.5, 1.0)


def test_time_in_the_run_queue_is_work_with_a_small_share() -> None:
    starved = replace(_ASLEEP, is_runnable=True, cpu_s=5.01, waited_s=1.49, slices=102)
    evidence = compare(_STILL, _with_thread(starved, cpu_s=5.01), _STEP_S)

    assert evidence.work_s == pytest.approx(0.5)
    assert evidence.cpu_share == pytest.approx(0.02)


def test_a_thread_that_only_wakes_up_and_finds_nothing_to_do_waits_for_no_work() -> None:
    """As measured for a Python thread that waits for the interpreter lock, beside six busy processes."""
    polls = replace(_ASLEEP, cpu_s=5.0014, waited_s=1.145, slices=172)

    assert compare(_STILL, _with_thread(polls), _STEP_S).work_s == 0


def test_short_turns_on_a_cpu_with_hardly_any_sleep_between_are_work() -> None:
    starved = replace(_ASLEEP, cpu_s=5.005, waited_s=1.45, slices=150)

    assert compare(_STILL, _with_thread(starved), _STEP_S).work_s == pytest.approx(0.45)


def test_one_that_stands_in_the_queue_all_the_time_wants_a_cpu_all_the_time() -> None:
    queued = _with_thread(replace(_ASLEEP, is_runnable=True))
    evidence = compare(queued, queued, _STEP_S)

    assert (evidence.work_s, evidence.cpu_share) == (0.5, 0.0)
    assert compare(_STILL, queued, _STEP_S).work_s == 0


def test_where_the_kernel_counts_nothing_the_state_of_a_thread_tells() -> None:
    queued = _with_thread(ThreadSample(is_runnable=True))

    assert compare(queued, queued, _STEP_S).work_s == 0.5


def test_a_long_wait_that_ends_counts_for_this_step_only() -> None:
    woken = replace(_ASLEEP, cpu_s=5.004, waited_s=601.0, slices=101)

    assert compare(_STILL, _with_thread(woken), _STEP_S).work_s == 0.5


def test_threads_that_come_and_go_do_no_harm() -> None:
    other = replace(_STILL, threads={8: ThreadSample(is_runnable=True, cpu_s=900.0, waited_s=900.0, slices=1)})

    assert compare(_STILL, other, _STEP_S).work_s == 0
    assert compare(other, _STILL, _STEP_S).work_s == 0


def test_reads_and_major_faults_are_reads() -> None:
    assert compare(_STILL, replace(_STILL, read_bytes=8192), _STEP_S).has_read
    assert compare(_STILL, replace(_STILL, major_faults=4), _STEP_S).has_read


def test_memory_counts_by_the_megabyte() -> None:
    assert not compare(_STILL, replace(_STILL, resident_bytes=(100 << 20) + 4096), _STEP_S).has_grown
    assert compare(_STILL, replace(_STILL, resident_bytes=101 << 20), _STEP_S).has_grown


def test_the_end_of_an_uninterruptible_wait_is_seen() -> None:
    waiting = replace(_STILL, state="D", is_in_kernel=True)

    assert compare(waiting, _STILL, _STEP_S).came_back
    assert not compare(_STILL, waiting, _STEP_S).came_back
    assert not compare(waiting, waiting, _STEP_S).came_back


def test_a_child_that_works_counts_once_it_was_seen_twice() -> None:
    seen = replace(_STILL, family_cpu_s=100.0)

    assert compare(_STILL, seen, _STEP_S).work_s == 0
    assert compare(seen, replace(seen, family_cpu_s=100.25), _STEP_S).work_s == 0.25


@given(before=_SAMPLES, now=_SAMPLES, step_s=st.floats(min_value=0, max_value=10))
def test_no_pair_of_looks_gives_work_below_zero_or_a_share_out_of_range(
    before: ProcessSample, now: ProcessSample, step_s: float
) -> None:
    evidence = compare(before, now, step_s)

    assert evidence.work_s >= 0
    assert 0 <= evidence.cpu_share <= 1
