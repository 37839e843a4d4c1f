"""One request from prompt to end, on a scripted engine."""

import contextlib
import itertools

import msgspec
import pytest

from gpu_worker.batch import OneByOne, slices
from gpu_worker.errors import EngineFault, RequestFault
from gpu_worker.generation import Generation, GenerationSettings, reuse_of
from gpu_worker.loop_guard import MIN_TOKENS
from ipc.messages import (
    Cancel,
    Delta,
    FailCode,
    Finished,
    FinishReason,
    Generate,
    Guidance,
    GuidanceKind,
    Image,
    Phase,
    PrefixReuse,
    Progress,
    RejectCode,
    Sampling,
    Started,
)
from tests.gpu_worker.scripted import EOS, ScriptedChannel, ScriptedEngine, facts, once, request


def run(
    engine: ScriptedEngine,
    asked: Generate,
    channel: ScriptedChannel | None = None,
    *,
    prefill_chunk: int = 128,
    has_loop_guard: bool = True,
) -> tuple[Finished, ScriptedChannel]:
    channel = channel or ScriptedChannel()
    batch = OneByOne(engine, prefill_chunk)
    generation = Generation(asked, engine, batch, channel, GenerationSettings(has_loop_guard))

    try:
        generation.begin()
        return generation.finish(_run_to_end(generation, batch, channel)), channel
    finally:
        batch.leave(asked.request_id)


def _run_to_end(generation: Generation, batch: OneByOne, channel: ScriptedChannel) -> FinishReason:
    while True:
        if channel.receive(0) == Cancel(generation.request.request_id):
            return FinishReason.CANCELLED

        for event in batch.step():
            if (reason := generation.take(event)) is not None:
                return reason


def test_an_answer_that_ends_is_started_sent_and_finished() -> None:
    finished, channel = run(ScriptedEngine([*b"Yes", EOS]), request("ab"))

    assert channel.sent == [
        Started(request_id=1, prompt_tokens=2, max_tokens=8),
        Progress(phase=Phase.PREFILL, request_id=1, done=0, total=2),
        Delta(request_id=1, text="Y", completion_tokens=1),
        Delta(request_id=1, text="e", completion_tokens=2),
        Delta(request_id=1, text="s", completion_tokens=3),
    ]
    assert (finished.reason, finished.prompt_tokens, finished.completion_tokens) == (FinishReason.STOP, 2, 4)


def test_an_answer_at_the_cap_ends_with_length() -> None:
    finished, channel = run(ScriptedEngine(list(b"Yes and more")), request(max_tokens=3))
    assert (finished.reason, finished.completion_tokens, channel.text) == (FinishReason.LENGTH, 3, "Yes")


def test_an_end_token_exactly_at_the_cap_is_a_stop() -> None:
    finished, _ = run(ScriptedEngine([*b"Yes", EOS]), request(max_tokens=4))
    assert (finished.reason, finished.completion_tokens) == (FinishReason.STOP, 4)


def test_an_answer_of_nothing_but_the_end_token_sends_no_text() -> None:
    finished, channel = run(ScriptedEngine([EOS]), request())
    assert (finished.reason, finished.completion_tokens, channel.text) == (FinishReason.STOP, 1, "")
    assert finished.decode_tok_per_sec == 0.0


def test_token_zero_is_a_token_like_any_other() -> None:
    finished, channel = run(ScriptedEngine([ord("W"), 0, ord("!")]), request(max_tokens=3))
    assert channel.text == "W\0!"
    assert (finished.reason, finished.completion_tokens) == (FinishReason.LENGTH, 3)


def test_a_character_over_several_tokens_is_sent_whole() -> None:
    _, channel = run(ScriptedEngine([*"a😀é".encode(), EOS]), request(max_tokens=20))
    assert [m.text for m in channel.sent if isinstance(m, Delta)] == ["a", "😀", "é"]
    assert [m.completion_tokens for m in channel.sent if isinstance(m, Delta)] == [1, 5, 7]


def test_tokens_without_text_are_told_as_progress_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that says nothing for long counts as hung."""
    clock = itertools.count(0.0, 0.4)
    monkeypatch.setattr("gpu_worker.generation.time.monotonic", lambda: next(clock))
    # Three of the four parts of a character give no text.
    _, channel = run(ScriptedEngine([*"😀".encode(), EOS]), request("ab", max_tokens=50))
    told = [message.done for message in channel.sent if isinstance(message, Progress) and message.phase is Phase.DECODE]
    assert told == [3]
    assert channel.text == "😀"


def test_a_character_cut_by_the_cap_comes_as_a_replacement() -> None:
    _, channel = run(ScriptedEngine(list("é".encode())), request(max_tokens=1))
    assert channel.text == "\N{REPLACEMENT CHARACTER}"


def test_max_tokens_is_capped_to_the_room_in_the_window() -> None:
    engine = ScriptedEngine(list(b"x" * 50), facts=facts(10))
    finished, channel = run(engine, request("abcdef", max_tokens=50))
    assert channel.sent[0] == Started(request_id=1, prompt_tokens=6, max_tokens=4)
    assert (finished.reason, finished.completion_tokens) == (FinishReason.LENGTH, 4)
    assert engine.options[0].max_length == 10


def test_memory_is_asked_for_prompt_and_answer_only() -> None:
    engine = ScriptedEngine([EOS], facts=facts(100_000))
    run(engine, request("abc", max_tokens=5))
    assert engine.options[0].max_length == 8


def test_a_model_that_names_no_window_takes_what_is_asked() -> None:
    _, channel = run(ScriptedEngine([EOS], facts=facts(None)), request("abc", max_tokens=7))
    assert channel.sent[0] == Started(request_id=1, prompt_tokens=3, max_tokens=7)


@pytest.mark.parametrize("length", [10, 11])
def test_a_prompt_that_fills_the_window_is_refused_with_both_numbers(length: int) -> None:
    channel = ScriptedChannel()

    with pytest.raises(RequestFault, match=rf"{length} tokens.* 10 tokens") as caught:
        run(ScriptedEngine([EOS], facts=facts(10)), request("x" * length), channel)

    assert caught.value.code is RejectCode.CONTEXT_LENGTH_EXCEEDED
    assert channel.sent == []


def test_a_prompt_one_token_short_of_the_window_is_served() -> None:
    finished, _ = run(ScriptedEngine([65], facts=facts(10)), request("x" * 9))
    assert finished.completion_tokens == 1


@pytest.mark.parametrize(
    ("asked", "field"),
    [(request(max_tokens=0), "max_tokens"), (request(sampling=Sampling(temperature=-1.0)), "temperature")],
)
def test_a_value_that_makes_no_sense_is_refused_before_anything_is_said(asked: Generate, field: str) -> None:
    channel = ScriptedChannel()

    with pytest.raises(RequestFault, match=field):
        run(ScriptedEngine([EOS]), asked, channel)

    assert channel.sent == []


def test_a_long_prompt_is_fed_in_slices_with_a_word_before_each() -> None:
    engine = ScriptedEngine([EOS])
    _, channel = run(engine, request("abcdefgh"), prefill_chunk=3)
    assert [bytes(part) for part in engine.fed] == [b"abc", b"def", b"gh"]
    assert [(m.done, m.total) for m in channel.sent if isinstance(m, Progress)] == [(0, 8), (3, 8), (6, 8)]


def test_chunk_zero_feeds_the_whole_prompt() -> None:
    engine = ScriptedEngine([EOS])
    run(engine, request("abcdefgh"), prefill_chunk=0)
    assert [bytes(part) for part in engine.fed] == [b"abcdefgh"]


def test_tokens_that_the_engine_knows_already_are_not_fed_again() -> None:
    engine = ScriptedEngine([EOS], cached_tokens=5)
    finished, _ = run(engine, request("abcdefgh"))
    assert [bytes(part) for part in engine.fed] == [b"fgh"]
    assert finished.cached_tokens == 5


def test_a_cancel_between_slices_ends_the_prefill() -> None:
    channel = ScriptedChannel(polled=once(Cancel(1), lambda sent: len(sent) == 3))
    engine = ScriptedEngine([EOS])
    finished, _ = run(engine, request("abcdefgh"), channel, prefill_chunk=2)
    assert (finished.reason, finished.completion_tokens, finished.ttft_sec) == (FinishReason.CANCELLED, 0, 0.0)
    assert len(engine.fed) == 1
    assert engine.closed == 1


def test_a_cancel_between_tokens_ends_the_answer() -> None:
    channel = ScriptedChannel(polled=once(Cancel(1), lambda sent: isinstance(sent[-1], Delta)))
    finished, _ = run(ScriptedEngine(list(b"abc")), request(), channel)
    assert (finished.reason, finished.completion_tokens, channel.text) == (FinishReason.CANCELLED, 1, "a")


def test_a_cancel_of_another_request_changes_nothing() -> None:
    channel = ScriptedChannel(polled=once(Cancel(2), lambda sent: isinstance(sent[-1], Delta)))
    finished, _ = run(ScriptedEngine([*b"abc", EOS]), request(), channel)
    assert (finished.reason, channel.text) == (FinishReason.STOP, "abc")


def test_a_stuck_model_is_stopped_by_the_guard() -> None:
    finished, _ = run(ScriptedEngine([7] * 900), request(max_tokens=900))
    assert finished.reason is FinishReason.LOOP
    assert MIN_TOKENS <= finished.completion_tokens < MIN_TOKENS + 16


def test_without_the_guard_a_stuck_model_runs_to_the_cap() -> None:
    finished, _ = run(ScriptedEngine([7] * 900), request(max_tokens=300), has_loop_guard=False)
    assert (finished.reason, finished.completion_tokens) == (FinishReason.LENGTH, 300)


@pytest.mark.parametrize("answer", [[EOS], [EngineFault(FailCode.ENGINE_ERROR, "x", is_fatal=False)]])
def test_the_sequence_is_closed_however_it_ends(answer: list[int | Exception]) -> None:
    engine = ScriptedEngine(answer)

    with contextlib.suppress(EngineFault):
        run(engine, request())

    assert engine.closed == 1


def test_decode_speed_counts_the_tokens_after_the_first() -> None:
    finished, _ = run(ScriptedEngine([*b"abcd", EOS]), request())
    assert finished.ttft_sec > 0
    assert finished.decode_tok_per_sec > 0


def test_slices_cover_the_range_without_gap_or_overlap() -> None:
    for start in range(5):
        for end in range(start, 12):
            for chunk in range(6):
                fed = [token for first, last in slices(start, end, chunk) for token in range(first, last)]
                assert fed == list(range(start, end))


REUSE = PrefixReuse(scope="key", conversation="c", ttl_s=300)


@pytest.mark.parametrize(
    ("changes", "shared"),
    [
        ({}, REUSE),
        ({"sampling": Sampling(temperature=0.7)}, REUSE),
        ({"sampling": Sampling(temperature=0.7, seed=1)}, None),
        ({"sampling": Sampling(temperature=0.0, seed=1)}, REUSE),
        ({"guidance": Guidance(kind=GuidanceKind.REGEX, text="a")}, None),
        ({"images": (Image(data=b"x", field="messages", marker="<image>"),)}, None),
    ],
    ids=["greedy", "sampled", "seeded", "greedy with a seed", "guided", "with a picture"],
)
def test_a_prefix_is_shared_by_those_whose_answer_hangs_on_it_alone(
    changes: dict[str, object], shared: PrefixReuse | None
) -> None:
    assert reuse_of(msgspec.structs.replace(request(), reuse=REUSE, **changes)) == shared


def test_the_engine_is_told_what_may_be_shared() -> None:
    engine = ScriptedEngine([EOS])
    seeded = Sampling(temperature=0.7, seed=1)
    run(engine, msgspec.structs.replace(request(), reuse=REUSE))
    run(engine, msgspec.structs.replace(request(sampling=seeded), reuse=REUSE))
    assert engine.reuses == [REUSE, None]


def test_what_is_cached_is_told_with_the_first_text_and_at_the_end() -> None:
    finished, channel = run(ScriptedEngine([*b"abc", EOS], cached_tokens=3), request("abcdef"))
    assert [message.cached_tokens for message in channel.sent if isinstance(message, Delta)] == [3, 0, 0]
    assert finished.cached_tokens == 3
