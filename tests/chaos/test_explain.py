"""Errors and their causes: one death explains one failed request, the one that ran; whoever only waited must be served."""

from benchmarks.chaos.explain import (
    Outcome,
    Rules,
    failed_without_a_cause,
    next_answers_s,
    refused_without_a_cause,
)
from benchmarks.chaos.replay import Kill, WorkerLife

ENDLESS = Rules(max_queue=2, deaths_to_refuse=None)
USUAL = Rules(max_queue=2, deaths_to_refuse=3)


def death(at: float, number: int = 1, model: str = "a", *, working_on: int = 1, is_loaded: bool = True) -> WorkerLife:
    life = WorkerLife(number, model, 100 + number, at - 1, is_fault=True, was_working_on=working_on)
    life.loaded_at = at - 0.5 if is_loaded else None
    life.ended_at = life.gone_at = at
    return life


def outcome(code: str, sent_at: float, over_at: float, number: int = 1, model: str = "a") -> Outcome:
    return Outcome(number, model, code, sent_at, over_at, over_at)


def lost(outcomes: list[Outcome], lives: list[WorkerLife], rules: Rules = ENDLESS) -> list[int]:
    return [found.number for found in failed_without_a_cause(outcomes, lives, rules)]


def test_the_request_that_ran_may_fail() -> None:
    assert lost([outcome("engine_crashed", 1, 3), outcome("answered", 1, 5, 2)], [death(2)]) == []
    assert lost([outcome("engine_unresponsive", 1, 3)], [death(2)]) == []


def test_a_request_that_waited_must_not_fail_with_it() -> None:
    both = [outcome("engine_crashed", 1, 3, 1), outcome("engine_crashed", 1, 3.1, 2)]
    assert lost(both, [death(2)]) == [2]
    assert lost(both, [death(2), death(2.5, 2)]) == []


def test_a_death_may_fail_as_many_as_ran_on_that_worker() -> None:
    three = [outcome("engine_crashed", 1, 3 + number / 10, number) for number in range(3)]
    assert lost(three, [death(2, working_on=3)]) == []
    assert lost(three, [death(2, working_on=2)]) == [2]


def test_a_death_before_or_after_a_request_explains_nothing() -> None:
    assert lost([outcome("engine_crashed", 3, 4)], [death(2)]) == [1]
    assert lost([outcome("engine_crashed", 3, 4)], [death(5)]) == [1]


def test_a_death_of_another_model_or_of_an_idle_worker_explains_nothing() -> None:
    assert lost([outcome("engine_crashed", 1, 3)], [death(2, model="b")]) == [1]
    assert lost([outcome("engine_crashed", 1, 3)], [death(2, working_on=0)]) == [1]


def test_a_worker_that_was_ended_by_the_server_explains_nothing() -> None:
    stopped = death(2)
    stopped.is_fault = False
    assert lost([outcome("engine_crashed", 1, 3)], [stopped]) == [1]


def test_a_load_must_die_twice_before_its_request_is_told() -> None:
    loads = [death(2, working_on=0, is_loaded=False), death(3, 2, working_on=0, is_loaded=False)]
    failed = outcome("model_load_failed", 1, 4)
    assert lost([failed], loads) == []
    assert lost([failed], loads[:1]) == [1]
    assert lost([failed], [death(2), death(3, 2)]) == [1]
    # Where a model that failed often is not tried again, one is enough.
    assert lost([failed], loads[:1], USUAL) == []


def test_a_load_that_hangs_is_told_at_once_but_not_as_a_crash() -> None:
    load = death(2, working_on=0, is_loaded=False)
    assert lost([outcome("engine_unresponsive", 1, 3)], [load]) == []
    assert lost([outcome("engine_crashed", 1, 3)], [load]) == [1]


def refused(outcomes: list[Outcome], lives: list[WorkerLife], rules: Rules) -> list[int]:
    return [found.number for found in refused_without_a_cause(outcomes, lives, rules)]


def test_a_full_queue_needs_others() -> None:
    busy = outcome("server_busy", 5, 5.01, 9)
    others = [outcome("answered", 1, 6, number) for number in range(2)]
    assert refused([busy, *others], [], ENDLESS) == []
    assert refused([busy, *others[:1]], [], ENDLESS) == [9]
    assert refused([busy, *others[:1], outcome("answered", 1, 2, 3)], [], ENDLESS) == [9]


def test_a_model_is_refused_only_after_it_failed_often() -> None:
    unavailable = outcome("model_unavailable", 9, 9.1)
    deaths = [death(at, int(at)) for at in (2, 3, 4)]
    assert refused([unavailable], deaths, USUAL) == []
    assert refused([unavailable], deaths[:2], USUAL) == [1]
    assert refused([unavailable], deaths, ENDLESS) == [1]
    assert refused([outcome("model_unavailable", 3.5, 3.6)], deaths, USUAL) == [1]


def hit(at: float, number: int = 1, signal: str = "SIGKILL") -> Kill:
    return Kill(at, at, 100 + number, signal)


def test_the_next_answer_is_the_first_text_after_the_dead_was_reaped() -> None:
    texts = [outcome("answered", 1, 1.9), outcome("engine_crashed", 1, 2.1), outcome("answered", 1, 2.5)]
    assert next_answers_s([hit(1.75)], [death(2)], texts) == [0.75]
    assert next_answers_s([hit(1.75), hit(2.75, 2)], [death(2), death(3, 2)], texts) == [0.75]
    assert next_answers_s([hit(1.75)], [death(3)], texts) == []
    assert next_answers_s([hit(1.75)], [], texts) == []


def test_a_signal_that_is_followed_by_another_one_or_only_stops_tells_nothing() -> None:
    texts = [outcome("answered", 1, 2.5)]
    assert next_answers_s([hit(1.75), hit(2.25, 2)], [death(2)], texts) == []
    assert next_answers_s([hit(1.75, signal="SIGSTOP")], [death(2)], texts) == []
