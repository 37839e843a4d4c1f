"""What a request continues from, on a made-up engine whose every token tells what came before it."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_worker.errors import EngineFault
from gpu_worker.kv_slots import SlotBounds
from gpu_worker.prefix_cache import DEFAULT_TTL_S
from gpu_worker.sampling import SearchOptions, search_options
from ipc.messages import FailCode, PrefixReuse, Sampling
from tests.gpu_worker.conversations import Talk, feed
from tests.gpu_worker.rewindable import COSTS, DigestEngine

SHARED = PrefixReuse()
GREEDY = Sampling(temperature=0.0)
PROMPT = list(range(1, 101))
CANNOT = EngineFault(FailCode.ENGINE_ERROR, "RewindTo is currently not supported", is_fatal=False)


def options(prompt: list[int], answer: int = 20, sampling: Sampling = GREEDY) -> SearchOptions:
    return search_options(sampling, max_length=len(prompt) + answer, model_top_k=None, vocabulary_size=None)


def ask(
    engine: DigestEngine, prompt: list[int], reuse: PrefixReuse | None = SHARED, *, answer: int = 3
) -> tuple[int, list[int]]:
    """Return how much was cached, and the answer without its end."""
    sequence = engine.start(prompt, options(prompt), reuse)
    feed(sequence, prompt)
    tokens = [sequence.step() for _ in range(answer)]
    sequence.keep()
    sequence.close()
    return sequence.cached_tokens, [token for token in tokens if token < 256]


@given(seed=st.integers(0, 1 << 32), slots=st.integers(1, 5), kilobytes=st.integers(1, 9), prealloc=st.booleans())
def test_no_conversation_answers_otherwise_because_of_what_is_kept(
    seed: int, slots: int, kilobytes: int, prealloc: bool
) -> None:
    engine = DigestEngine(SlotBounds(slots, kilobytes * 1_000), replace(COSTS, is_preallocated=prealloc))
    Talk(engine, Random(seed)).run(25)
    assert len(engine.alive) <= slots


def test_conversations_reuse_most_of_what_they_say() -> None:
    talk = Talk(DigestEngine(), Random(5))
    talk.run(300)
    assert talk.cached_tokens > talk.prompt_tokens / 2


def test_the_next_turn_feeds_only_what_is_new() -> None:
    engine = DigestEngine()
    _, answer = ask(engine, PROMPT)
    cached, _ = ask(engine, [*PROMPT, *answer, 7, 8, 9])
    # All but the last token, whose keys and values nobody computed, and one more that a growing cache cannot give up.
    assert cached == len(PROMPT) + len(answer) - 2


def test_the_same_prompt_again_feeds_its_last_token_alone() -> None:
    engine = DigestEngine()
    assert [ask(engine, PROMPT)[0] for _ in range(3)] == [0, 99, 99]


@pytest.mark.parametrize("reuse", [None, PrefixReuse(scope="other"), PrefixReuse(conversation="other")])
def test_nobody_else_continues_from_it(reuse: PrefixReuse | None) -> None:
    engine = DigestEngine()
    ask(engine, PROMPT)
    assert ask(engine, PROMPT, reuse)[0] == 0
    assert ask(engine, PROMPT)[0] == 99


def test_a_request_that_shares_nothing_leaves_nothing_behind() -> None:
    engine = DigestEngine()
    ask(engine, PROMPT, None)
    assert engine.alive == []
    assert ask(engine, PROMPT)[0] == 0


def test_no_slots_keep_nothing() -> None:
    engine = DigestEngine(SlotBounds(0, 1 << 30))
    sequence = engine.start(PROMPT, options(PROMPT), SHARED)
    feed(sequence, PROMPT)
    sequence.close()
    assert engine.alive == []
    assert engine.begun[0].max_length == 120


def test_a_failed_request_is_not_continued() -> None:
    engine = DigestEngine()
    sequence = engine.start(PROMPT, options(PROMPT), SHARED)
    feed(sequence, PROMPT)
    sequence.close()
    sequence.close()
    sequence.keep()
    assert engine.alive == []
    assert ask(engine, PROMPT)[0] == 0


def test_a_prompt_that_was_fed_in_part_is_continued_there() -> None:
    engine = DigestEngine()
    sequence = engine.start(PROMPT, options(PROMPT), SHARED)
    sequence.feed(PROMPT[:64])
    sequence.keep()
    assert ask(engine, PROMPT)[0] == 64


def test_a_prompt_of_which_nothing_was_fed_is_not_kept() -> None:
    engine = DigestEngine()
    engine.start(PROMPT, options(PROMPT), SHARED).keep()
    assert engine.alive == []


def test_a_request_that_fed_nothing_leaves_what_it_would_have_continued() -> None:
    engine = DigestEngine()
    ask(engine, PROMPT)
    left = engine.start([*PROMPT[:80], 7], options(PROMPT), PrefixReuse(ttl_s=1))
    assert left.cached_tokens == 80
    left.keep()
    left.close()
    engine.now = 2
    assert ask(engine, PROMPT)[0] == 99


def test_a_request_that_broke_before_it_fed_anything_costs_what_it_would_have_continued() -> None:
    engine = DigestEngine()
    ask(engine, PROMPT)
    engine.start(PROMPT, options(PROMPT), SHARED).close()
    assert engine.alive == []


def test_requests_that_search_otherwise_do_not_share() -> None:
    engine = DigestEngine()
    ask(engine, PROMPT)
    sampled = engine.start(PROMPT, options(PROMPT, sampling=Sampling(temperature=1.0)), SHARED)
    assert sampled.cached_tokens == 0
    sampled.close()
    assert ask(engine, PROMPT)[0] == 99


def test_a_kept_sequence_takes_the_numbers_of_the_new_request() -> None:
    engine = DigestEngine()

    for temperature in (0.5, 0.9):
        sequence = engine.start(PROMPT, options(PROMPT, sampling=Sampling(temperature=temperature)), SHARED)
        feed(sequence, PROMPT)
        sequence.keep()

    assert [alive.options.temperature for alive in engine.alive] == [0.9]


@pytest.mark.parametrize(("ttl_s", "kept_s"), [(300, 300), (None, DEFAULT_TTL_S)])
def test_what_was_kept_for_long_enough_goes_also_without_a_request(ttl_s: int | None, kept_s: int) -> None:
    engine = DigestEngine()
    reuse = PrefixReuse(ttl_s=ttl_s)
    assert engine.forget_expired() is None
    ask(engine, PROMPT, reuse)
    engine.now = 100
    assert engine.forget_expired() == kept_s - 100
    assert ask(engine, PROMPT, reuse)[0] == 99
    engine.now = 100 + kept_s - 1
    assert engine.forget_expired() == 1
    engine.now += 1
    assert engine.forget_expired() is None
    assert engine.alive == []


def test_an_expired_sequence_is_not_continued_though_nobody_tidied_up() -> None:
    engine = DigestEngine()
    ask(engine, PROMPT, PrefixReuse(ttl_s=5))
    engine.now = 5
    assert ask(engine, PROMPT)[0] == 0


def test_a_model_that_cannot_go_back_begins_afresh_for_ever_after(caplog: pytest.LogCaptureFixture) -> None:
    engine = DigestEngine()
    ask(engine, PROMPT)
    ask(engine, PROMPT, PrefixReuse(conversation="b"))
    engine.rewind_fault = CANNOT
    _, fresh = ask(engine, PROMPT, None)
    # That it cannot is known when the first tokens are fed.
    assert ask(engine, PROMPT) == (0, fresh)
    assert engine.alive == []
    assert ask(engine, PROMPT) == (0, fresh)
    assert "cannot go back: RewindTo is currently not supported" in caplog.text


def test_a_device_that_broke_while_going_back_fails_the_request() -> None:
    engine = DigestEngine(rewind_fault=EngineFault(FailCode.ENGINE_ERROR, "CUDA error", is_fatal=True))
    ask(engine, PROMPT)

    with pytest.raises(EngineFault, match="CUDA error"):
        ask(engine, PROMPT)

    assert engine.alive == []


def test_kept_sequences_make_room_when_memory_runs_out(caplog: pytest.LogCaptureFixture) -> None:
    engine = DigestEngine(memory=2)
    ask(engine, PROMPT, PrefixReuse(conversation="a"))
    ask(engine, PROMPT, PrefixReuse(conversation="b"))
    assert ask(engine, PROMPT, PrefixReuse(conversation="c"))[0] == 0
    assert len(engine.alive) == 1
    assert "made room for a request: bad_alloc" in caplog.text


def test_memory_that_runs_out_with_nothing_kept_is_a_fault() -> None:
    with pytest.raises(EngineFault, match="bad_alloc"):
        ask(DigestEngine(memory=0), PROMPT)


class TestLength:
    """For how many tokens a sequence is made."""

    def begun(self, needed: int, megabytes: float = 1.0, window: int | None = 4_096, *, prealloc: bool = True) -> int:
        costs = replace(COSTS, token_bytes=100, is_preallocated=prealloc, window=window)
        engine = DigestEngine(SlotBounds(4, int(megabytes * 1_000_000)), costs)
        engine.start([1] * (needed - 10), options([1] * (needed - 10), 10), SHARED).close()
        return engine.begun[0].max_length

    def test_is_the_window_where_it_costs_nothing(self) -> None:
        assert self.begun(50, prealloc=False) == 4_096
        assert self.begun(50, prealloc=False, window=None) == 50

    def test_leaves_room_for_more_turns_where_memory_is_taken_at_once(self) -> None:
        assert self.begun(600) == 1_280
        assert self.begun(600, window=None) == 1_280
        assert self.begun(600, window=1_000) == 1_000

    def test_takes_no_more_than_its_share_of_the_memory_for_that(self) -> None:
        assert self.begun(600, 0.4) == 1_000
        assert self.begun(600, 0.1) == 600

    def test_a_conversation_that_outgrows_its_sequence_gets_a_larger_one(self) -> None:
        costs = replace(COSTS, is_preallocated=True)
        engine = DigestEngine(costs=costs)
        prompt = PROMPT

        for _ in range(20):
            _, answer = ask(engine, prompt)
            prompt = [*prompt, *answer, *range(30)]

        assert len(engine.alive) == 1
        assert [begun.max_length for begun in engine.begun] == [256, 768]

    def test_a_sequence_past_the_border_of_its_positions_is_not_kept(self) -> None:
        engine = DigestEngine(costs=replace(COSTS, longest_kept=100))
        ask(engine, PROMPT[:90])
        assert len(engine.alive) == 1
        assert ask(engine, PROMPT)[0] == 90
        assert engine.alive == []
