"""A prompt that killed two workers (F52). A made-up clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from ipc.messages import GenerationTask, Guidance, GuidanceKind, Image, Sampling
from supervisor.poison_prompts import PoisonBounds, PoisonPrompts

_PIECES = st.lists(st.text(st.characters(codec=None), max_size=4), max_size=4).map(tuple)


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 500.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def prompts(clock: Clock) -> PoisonPrompts:
    return PoisonPrompts(PoisonBounds(), clock)


def test_one_death_is_no_proof(prompts: PoisonPrompts) -> None:
    prompts.died_under("m", ("hello",))

    assert prompts.refused_for_s("m", ("hello",)) is None


def test_a_prompt_that_killed_two_workers_is_refused_for_ten_minutes(prompts: PoisonPrompts, clock: Clock) -> None:
    prompts.died_under("m", ("hello",))
    clock.now += 599
    prompts.died_under("m", ("hello",))

    assert prompts.refused_for_s("m", ("hello",)) == 600
    clock.now += 599
    assert prompts.refused_for_s("m", ("hello",)) == 1
    clock.now += 1
    assert prompts.refused_for_s("m", ("hello",)) is None


def test_after_the_refusal_two_more_deaths_are_needed(clock: Clock) -> None:
    prompts = PoisonPrompts(PoisonBounds(refused_s=10), clock)

    for _ in range(2):
        prompts.died_under("m", ("hello",))

    clock.now += 10
    prompts.died_under("m", ("hello",))
    assert prompts.refused_for_s("m", ("hello",)) is None
    prompts.died_under("m", ("hello",))
    assert prompts.refused_for_s("m", ("hello",)) == 10


def test_deaths_more_than_ten_minutes_apart_do_not_add_up(prompts: PoisonPrompts, clock: Clock) -> None:
    for _ in range(5):
        prompts.died_under("m", ("hello",))
        clock.now += 600

    assert prompts.refused_for_s("m", ("hello",)) is None


def test_other_prompts_and_other_models_are_not_affected(prompts: PoisonPrompts) -> None:
    for _ in range(2):
        prompts.died_under("m", ("hello", "you"))

    assert prompts.refused_for_s("m", ("hello", "you")) is not None
    assert prompts.refused_for_s("m", ("helloyou",)) is None
    assert prompts.refused_for_s("m", ("hello", "me")) is None
    assert prompts.refused_for_s("other", ("hello", "you")) is None


def test_an_answer_in_between_clears_the_prompt(prompts: PoisonPrompts) -> None:
    prompts.died_under("m", ("hello",))
    prompts.completed("m", ("hello",))
    prompts.died_under("m", ("hello",))

    assert prompts.refused_for_s("m", ("hello",)) is None


def test_half_a_surrogate_pair_can_be_hashed(prompts: PoisonPrompts) -> None:
    for _ in range(2):
        prompts.died_under("m", ("\ud83d",))

    assert prompts.refused_for_s("m", ("\ud83d",)) is not None


def test_what_is_remembered_does_not_grow_without_bound(prompts: PoisonPrompts, clock: Clock) -> None:
    for number in range(1000):
        prompts.died_under("m", (str(number // 2),))
        clock.now += 60

    assert len(prompts._deaths) + len(prompts._refused_until) <= 22


@given(one=_PIECES, other=_PIECES)
def test_exactly_the_same_pieces_are_refused(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    prompts = PoisonPrompts(PoisonBounds(), Clock())

    for _ in range(2):
        prompts.died_under("m", one)

    assert (prompts.refused_for_s("m", other) is not None) == (one == other)


def test_one_text_is_poison_only_with_the_picture_and_the_grammar_under_which_workers_ended(
    prompts: PoisonPrompts,
) -> None:
    plain = GenerationTask(prompt=("hello",), max_tokens=1, sampling=Sampling())
    guided = structs.replace(plain, guidance=Guidance(GuidanceKind.REGEX, "a+"))
    seeing = structs.replace(plain, images=(Image(data=b"\x89PNG", field="messages[0]", marker="<image>"),))

    for _ in range(2):
        prompts.died_under("m", guided.identity())

    assert prompts.refused_for_s("m", guided.identity()) is not None
    assert prompts.refused_for_s("m", plain.identity()) is None
    assert prompts.refused_for_s("m", seeing.identity()) is None
    assert prompts.refused_for_s("m", structs.replace(guided, max_tokens=9).identity()) is not None


@pytest.mark.parametrize("field", ["deaths_to_refuse", "window_s", "refused_s"])
def test_bounds_that_make_no_sense_are_named(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        PoisonBounds(**{field: 0})
