"""When a model may be started again. A made-up clock; no process."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ipc.messages import LoadFailCode
from supervisor.restart_policy import Allowed, Answer, Open, RestartPolicy, WaitFor
from supervisor.restart_settings import RestartSettings


class Bench:
    """A policy without jitter, a clock that is moved by hand, and a folder whose mark can be changed."""

    def __init__(self, policy_settings: RestartSettings | None = None) -> None:
        self.now = 1000.0
        self.mark = "first"
        self.marks_read = 0
        self.policy = RestartPolicy(policy_settings or RestartSettings(), lambda: self.now, lambda: 0.5)

    def read_mark(self) -> str:
        self.marks_read += 1
        return self.mark

    def look(self, model_id: str = "m", patience_s: float | None = None) -> Answer:
        return self.policy.look(model_id, self.read_mark, patience_s)

    def begin(self, model_id: str = "m") -> Answer:
        return self.policy.begin_load(model_id, self.read_mark)

    def begin_when_allowed(self, model_id: str = "m") -> float:
        """Wait out what has to be waited, begin, and return how long it took."""
        began_at = self.now

        while not isinstance(answer := self.begin(model_id), Allowed):
            self.now += answer.seconds if isinstance(answer, WaitFor) else answer.retry_after_s

        return self.now - began_at

    def load(self, model_id: str = "m") -> float:
        waited_s = self.begin_when_allowed(model_id)
        self.policy.loaded(model_id)
        return waited_s

    def live_and_die(self, lives_s: float = 0.0) -> float:
        waited_s = self.load()
        self.now += lives_s
        self.policy.died("m", "ended with SIGSEGV")
        return waited_s


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_model_that_never_failed_may_be_loaded(bench: Bench) -> None:
    assert bench.look() == Allowed()
    assert bench.marks_read == 0


def test_the_first_death_costs_no_wait(bench: Bench) -> None:
    bench.live_and_die()

    assert bench.look() == Allowed()


def test_back_off_doubles_up_to_a_minute(bench: Bench) -> None:
    # Slow enough that the breaker stays closed: never five deaths within 60 s.
    waits = [bench.live_and_die(lives_s=20.0) for _ in range(11)]

    assert waits == [0.0, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


@given(faults=st.integers(min_value=0, max_value=10_000), chance=st.floats(min_value=0, max_value=1))
def test_jitter_stays_within_its_share_and_under_the_longest_wait(faults: int, chance: float) -> None:
    figures = RestartSettings()
    plain_s = figures.backoff_s(faults, 0.5)

    assert 0.8 * plain_s - 1e-9 <= figures.backoff_s(faults, chance) <= min(1.2 * plain_s, 60.0) + 1e-9


def test_a_back_off_longer_than_the_askers_patience_is_refused_at_once(bench: Bench) -> None:
    for _ in range(6):
        bench.live_and_die(lives_s=20.0)

    assert bench.look(patience_s=16.0) == WaitFor(16.0)
    answer = bench.look(patience_s=15.9)
    assert isinstance(answer, Open)
    assert answer.retry_after_s == 16.0
    assert "SIGSEGV" in answer.reason


def test_five_deaths_in_a_minute_open_the_breaker_and_the_reason_is_told(bench: Bench) -> None:
    for _ in range(5):
        bench.live_and_die()

    assert bench.look() == Open("The worker of model 'm' keeps ending: ended with SIGSEGV.", 60.0)


def test_four_deaths_in_a_minute_do_not_open_it(bench: Bench) -> None:
    for _ in range(4):
        bench.live_and_die()

    assert isinstance(bench.look(), WaitFor)


def test_deaths_that_lie_further_apart_do_not_open_it(bench: Bench) -> None:
    for _ in range(30):
        bench.live_and_die(lives_s=16.0)

    assert isinstance(bench.look(), WaitFor)


def test_three_failed_loads_in_a_row_open_it(bench: Bench) -> None:
    for _ in range(3):
        bench.begin_when_allowed()
        bench.policy.load_failed("m", LoadFailCode.OTHER, "no such device")

    assert bench.look() == Open("Model 'm' cannot be loaded: no such device.", 60.0)


def test_a_load_that_succeeds_breaks_the_row(bench: Bench) -> None:
    for _ in range(2):
        bench.begin_when_allowed()
        bench.policy.load_died("m", "ended with status 1")

    bench.load()
    bench.policy.stopped("m")
    bench.begin_when_allowed()
    bench.policy.load_died("m", "ended with status 1")

    assert isinstance(bench.look(), WaitFor)


def test_a_worker_that_exits_at_once_every_time_is_started_three_times_in_a_minute(bench: Bench) -> None:
    """Case 33: respawned twice a second for nine hours. F51: at most five spawns in 60 s."""
    ends_at, spawns = bench.now + 60, 0

    while bench.now < ends_at:
        if isinstance(bench.begin(), Allowed):
            spawns += 1
            bench.policy.load_died("m", "ended with status 1; its last words: bad interpreter")

        bench.now += 0.02

    assert spawns == 3


def test_nine_hours_of_requests_start_a_broken_worker_about_every_ten_minutes(bench: Bench) -> None:
    ends_at, spawns = bench.now + 9 * 3600, 0

    while bench.now < ends_at:
        if isinstance(bench.begin(), Allowed):
            spawns += 1
            bench.policy.load_died("m", "ended with status 1")

        bench.now += 1

    assert 50 <= spawns <= 65


def test_after_the_open_time_one_request_tries_and_the_others_are_refused(bench: Bench) -> None:
    for _ in range(5):
        bench.live_and_die()

    bench.now += 59.9
    assert isinstance(bench.begin(), Open)
    bench.now += 0.1
    assert bench.look() == Allowed()
    assert bench.begin() == Allowed()
    assert isinstance(bench.begin(), Open)
    bench.policy.loaded("m")
    assert isinstance(bench.look(), Open)
    bench.policy.request_completed("m")
    bench.policy.stopped("m")
    assert isinstance(bench.look(), Allowed)


@pytest.mark.parametrize("loads", [True, False])
def test_a_try_that_fails_opens_it_for_twice_as_long_up_to_ten_minutes(bench: Bench, loads: bool) -> None:
    for _ in range(5):
        bench.live_and_die()

    periods = []

    for _ in range(6):
        bench.begin_when_allowed()

        if loads:
            bench.policy.loaded("m")
            bench.policy.died("m", "again")
        else:
            bench.policy.load_failed("m", LoadFailCode.OUT_OF_MEMORY, "again")

        answer = bench.look()
        assert isinstance(answer, Open)
        periods.append(answer.retry_after_s)

    assert periods == [120.0, 240.0, 480.0, 600.0, 600.0, 600.0]


def test_a_try_that_is_given_up_leaves_the_next_one_free_to_try(bench: Bench) -> None:
    for _ in range(5):
        bench.live_and_die()

    bench.begin_when_allowed()
    bench.policy.stopped("m")

    assert bench.look() == Allowed()


def test_a_minute_of_life_and_one_answer_make_everything_forgotten(bench: Bench) -> None:
    for _ in range(7):
        bench.live_and_die(lives_s=20.0)

    bench.load()
    bench.policy.request_completed("m")
    bench.now += 60
    bench.policy.died("m", "much later")

    assert bench.look() == Allowed()


@pytest.mark.parametrize(("lives_s", "answers"), [(59.9, True), (3600.0, False)])
def test_life_alone_or_an_answer_alone_is_no_proof(bench: Bench, lives_s: float, answers: bool) -> None:
    for _ in range(4):
        bench.live_and_die(lives_s=20.0)

    bench.load()

    if answers:
        bench.policy.request_completed("m")

    bench.now += lives_s
    bench.policy.died("m", "again")

    assert bench.look() == WaitFor(8.0)


def test_where_models_take_turns_old_faults_do_not_add_up_for_ever(bench: Bench) -> None:
    for _ in range(20):
        bench.live_and_die()
        bench.now += 700
        bench.load()
        bench.policy.request_completed("m")
        bench.now += 10
        bench.policy.stopped("m")

    bench.live_and_die()
    assert bench.look() == Allowed()
    bench.live_and_die()
    assert bench.look() == WaitFor(1.0)


def test_a_bad_folder_is_refused_until_it_changes(bench: Bench) -> None:
    bench.begin()
    bench.policy.load_failed("m", LoadFailCode.BAD_MODEL, "no key 'model' in genai_config.json")

    for _ in range(5):
        answer = bench.begin()
        assert isinstance(answer, Open)
        assert (
            "no key 'model' in genai_config.json. It is tried again when a file of its folder changes" in answer.reason
        )
        bench.now += 10_000

    bench.mark = "repaired"
    assert bench.begin() == Allowed()
    bench.policy.loaded("m")
    bench.policy.died("m", "first fault of the repaired folder")
    assert bench.look() == Allowed()


def test_a_folder_that_changed_while_it_was_read_is_tried_again(bench: Bench) -> None:
    bench.begin()
    bench.mark = "repaired meanwhile"
    bench.policy.load_failed("m", LoadFailCode.BAD_MODEL, "cut off")

    assert bench.look() == Allowed()


def test_a_load_that_changes_its_own_bad_folder_does_not_go_round_without_end(bench: Bench) -> None:
    spawns, ends_at = 0, bench.now + 60

    while bench.now < ends_at:
        if isinstance(bench.begin(), Allowed):
            spawns += 1
            bench.mark = f"a cache was written {spawns} times"
            bench.policy.load_failed("m", LoadFailCode.BAD_MODEL, "bad")

        bench.now += 0.05

    assert spawns <= 8


def test_another_model_is_not_affected(bench: Bench) -> None:
    for _ in range(5):
        bench.live_and_die()

    assert isinstance(bench.look("m"), Open)
    assert bench.look("other") == Allowed()
    assert bench.begin("other") == Allowed()


def test_news_of_a_model_that_was_never_begun_is_a_bug_that_names_it(bench: Bench) -> None:
    with pytest.raises(ValueError, match="no load of model_id 'nobody' was begun"):
        bench.policy.died("nobody", "?")


@pytest.mark.parametrize(
    ("field", "value"),
    [("jitter", 1.0), ("jitter", -0.1), ("open_s", 0.0), ("stable_s", float("nan")), ("deaths_to_open", 0)],
)
def test_figures_that_make_no_sense_are_named(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        RestartSettings(**{field: value})  # type: ignore[arg-type]


class RestartMachine(RuleBasedStateMachine):
    """Everything that can happen to the workers of one model, in any order that one owner can produce, beside a model without faults."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.mark = 0
        self.is_loading = False
        self.is_loaded = False
        self.faults_at: list[float] = []
        self.deaths_at: list[float] = []
        self.bad_mark: int | None = None
        self.begun_mark = 0

    @initialize(chance=st.floats(min_value=0, max_value=1))
    def start(self, chance: float) -> None:
        self.policy = RestartPolicy(RestartSettings(), lambda: self.now, lambda: chance)

    def look(self, model_id: str = "m") -> Answer:
        return self.policy.look(model_id, lambda: str(self.mark))

    @rule(seconds=st.one_of(st.floats(min_value=0, max_value=3), st.floats(min_value=0, max_value=200), st.just(60.0)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def somebody_waits_for_the_moment_that_was_told(self) -> None:
        before = self.look()

        match before:
            case WaitFor(seconds=wait_s) | Open(retry_after_s=wait_s):
                assert 0 < wait_s <= 600
                self.now += wait_s + 1e-6

                # It heals by itself: only a folder that needs a hand, or a try that goes on, is not over by then.
                if self.bad_mark != self.mark and not self.is_loading and not self.is_loaded:
                    assert self.look() == Allowed()
            case Allowed():
                pass

    @rule()
    def the_folder_changes(self) -> None:
        self.mark += 1

    @precondition(lambda self: not self.is_loading and not self.is_loaded)
    @rule()
    def a_request_wants_a_load(self) -> None:
        foreseen = self.look()
        answer = self.policy.begin_load("m", lambda: str(self.mark))
        assert answer == foreseen

        if isinstance(answer, Allowed):
            self.is_loading = True
            self.bad_mark = None
            self.begun_mark = self.mark

    @precondition(lambda self: self.is_loading)
    @rule(end=st.sampled_from(["loaded", "died", "other", "bad", "stopped"]))
    def the_load_ends(self, end: str) -> None:
        self.is_loading = False

        match end:
            case "loaded":
                self.policy.loaded("m")
                self.is_loaded = True
            case "died":
                self.policy.load_died("m", "x")
                self.faults_at.append(self.now)
                self.deaths_at.append(self.now)
            case "other":
                self.policy.load_failed("m", LoadFailCode.OTHER, "x")
                self.faults_at.append(self.now)
            case "bad":
                self.policy.load_failed("m", LoadFailCode.BAD_MODEL, "x")
                self.bad_mark = self.begun_mark
                # A changed folder begins anew.
                self.faults_at, self.deaths_at = [], []
                assert isinstance(self.look(), Open) or self.mark != self.bad_mark
            case _:
                self.policy.stopped("m")

    @precondition(lambda self: self.is_loaded)
    @rule()
    def a_request_is_answered(self) -> None:
        self.policy.request_completed("m")

    @precondition(lambda self: self.is_loaded)
    @rule(is_wanted=st.booleans())
    def the_worker_ends(self, is_wanted: bool) -> None:
        self.is_loaded = False

        if is_wanted:
            self.policy.stopped("m")
        else:
            self.policy.died("m", "x")
            self.faults_at.append(self.now)
            self.deaths_at.append(self.now)

    @invariant()
    def looking_changes_nothing(self) -> None:
        assert self.look() == self.look()

    @invariant()
    def the_other_model_is_free(self) -> None:
        assert self.look("other") == Allowed()

    @invariant()
    def faults_do_not_come_in_swarms(self) -> None:
        # The back-off alone: 0, 1, 2, 4, 8, 16, 32 s, each at most a fifth shorter.
        assert sum(self.now - at < 60 for at in self.faults_at) <= 8
        # Five deaths open the breaker for a minute.
        assert sum(self.now - at < 60 for at in self.deaths_at) <= 5


RestartMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestRestartMachine = RestartMachine.TestCase
