"""The worker's loop: every request ends once, and no request ends the worker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_worker.batch import OneByOne
from gpu_worker.errors import EngineFault
from gpu_worker.generation import GenerationSettings
from gpu_worker.loop import Loop
from ipc.errors import ChannelClosed, ProtocolError
from ipc.messages import Cancel, FailCode, Failed, Finished, FinishReason, RejectCode, Rejected, Started, ToWorker
from tests.gpu_worker.scripted import EOS, ScriptedChannel, ScriptedEngine, facts, once, request

SETTINGS = GenerationSettings(has_loop_guard=True)


def run(engine: ScriptedEngine, channel: ScriptedChannel) -> None:
    with pytest.raises(ChannelClosed):
        Loop(channel, engine, OneByOne(engine, 4), SETTINGS, lambda: False).run()


def test_requests_are_served_one_after_the_other() -> None:
    channel = ScriptedChannel([request(number=1), request(number=2)])
    run(ScriptedEngine([*b"ok", EOS]), channel)
    assert [(end.request_id, type(end)) for end in channel.terminals] == [(1, Finished), (2, Finished)]
    assert channel.text == "okok"


def test_a_refused_request_is_rejected_and_the_next_is_served() -> None:
    channel = ScriptedChannel([request("x" * 20, number=1), request(number=2)])
    run(ScriptedEngine([EOS], facts=facts(10)), channel)
    first, second = channel.terminals
    assert isinstance(first, Rejected)
    assert first.code is RejectCode.CONTEXT_LENGTH_EXCEEDED
    assert isinstance(second, Finished)


def test_a_fault_of_the_engine_fails_the_request_and_the_worker_goes_on() -> None:
    channel = ScriptedChannel([request(number=1)])
    run(ScriptedEngine([65, EngineFault(FailCode.ENGINE_ERROR, "node 7 broke", is_fatal=False)]), channel)
    assert channel.text == "A"
    assert channel.terminals == [
        Failed(request_id=1, code=FailCode.ENGINE_ERROR, message="node 7 broke", is_fatal=False)
    ]


def test_a_fault_of_the_prefill_fails_the_request() -> None:
    channel = ScriptedChannel([request()])
    run(ScriptedEngine([EOS], on_feed=EngineFault(FailCode.OUT_OF_MEMORY, "bad_alloc", is_fatal=True)), channel)
    (end,) = channel.terminals
    assert isinstance(end, Failed)
    assert (end.code, end.is_fatal) == (FailCode.OUT_OF_MEMORY, True)


def test_two_faults_in_a_row_are_fatal() -> None:
    channel = ScriptedChannel([request(number=1), request(number=2)])
    run(ScriptedEngine([EngineFault(FailCode.ENGINE_ERROR, "again", is_fatal=False)]), channel)
    assert [end.is_fatal for end in channel.terminals if isinstance(end, Failed)] == [False, True]


def test_a_fault_after_a_good_answer_is_not_a_second_one() -> None:
    engine = ScriptedEngine([EOS])
    fault = EngineFault(FailCode.ENGINE_ERROR, "once", is_fatal=False)

    class Alternating(ScriptedChannel):
        def receive(self, timeout_ms: int | None) -> ToWorker | None:
            message = super().receive(timeout_ms)

            if timeout_ms is None and message is not None:
                engine.on_feed = fault if message.request_id % 2 else None

            return message

    channel = Alternating([request(number=number) for number in (1, 2, 3)])
    run(engine, channel)
    assert [isinstance(end, Failed) and end.is_fatal for end in channel.terminals] == [False, False, False]
    assert [type(end) for end in channel.terminals] == [Failed, Finished, Failed]


def test_an_unforeseen_exception_fails_the_request_and_not_the_worker() -> None:
    channel = ScriptedChannel([request(number=1), request(number=2)])
    run(ScriptedEngine([KeyError("surprise")]), channel)
    assert [type(end) for end in channel.terminals] == [Failed, Failed]


def test_a_request_that_waits_is_served_after_the_one_that_runs() -> None:
    channel = ScriptedChannel([request(number=1)], once(request(number=2), lambda sent: len(sent) == 2))
    run(ScriptedEngine([*b"ok", EOS]), channel)
    assert [end.request_id for end in channel.terminals] == [1, 2]
    started = [message.request_id for message in channel.sent if isinstance(message, Started)]
    assert started == [1, 2]


def test_a_cancelled_request_ends_once_and_the_next_is_served() -> None:
    channel = ScriptedChannel([request(number=1), request(number=2)], once(Cancel(1), lambda sent: len(sent) == 3))
    run(ScriptedEngine([*b"ok", EOS]), channel)
    reasons = [end.reason for end in channel.terminals if isinstance(end, Finished)]
    assert reasons == [FinishReason.CANCELLED, FinishReason.STOP]


def test_a_broken_protocol_ends_the_loop() -> None:
    class Broken(ScriptedChannel):
        def receive(self, timeout_ms: int | None) -> ToWorker | None:
            raise ProtocolError("not a message")

    engine = ScriptedEngine([EOS])

    with pytest.raises(ProtocolError):
        Loop(Broken(), engine, OneByOne(engine, 4), SETTINGS, lambda: False).run()


def test_a_front_that_ends_under_a_generation_ends_the_loop() -> None:
    channel = ScriptedChannel([request()])
    engine = ScriptedEngine([*b"ok", EOS])

    with pytest.raises(ChannelClosed):
        Loop(channel, engine, OneByOne(engine, 4), SETTINGS, lambda: len(channel.sent) > 2).run()

    assert channel.terminals == []
    assert engine.closed == 1


_BROKEN = EngineFault(FailCode.ENGINE_ERROR, "broken", is_fatal=False)


@given(
    st.lists(st.tuples(st.text(max_size=12), st.integers(-1, 12)), min_size=1, max_size=6),
    st.lists(st.sampled_from([65, 0, 0xE2, EOS, _BROKEN, RuntimeError("odd"), MemoryError()]), max_size=12),
    st.lists(st.integers(1, 7), max_size=6),
)
def test_every_request_ends_exactly_once(
    asked: list[tuple[str, int]], answer: list[int | Exception], cancels: list[int]
) -> None:
    late = [Cancel(number) for number in cancels]
    requests = [
        request(prompt, number=number, max_tokens=max_tokens)
        for number, (prompt, max_tokens) in enumerate(asked, start=1)
    ]
    channel = ScriptedChannel(requests, lambda sent: late.pop() if late and len(sent) % 3 == 0 else None)
    run(ScriptedEngine([*answer, *[EOS] * 13]), channel)
    assert [end.request_id for end in channel.terminals] == [message.request_id for message in requests]

    for end in channel.terminals:
        after = channel.sent[channel.sent.index(end) + 1 :]
        assert all(getattr(message, "request_id", 0) != end.request_id for message in after)


def test_an_idle_worker_wakes_up_to_free_what_was_kept_for_long_enough() -> None:
    channel = ScriptedChannel([request(number=1)])
    engine = ScriptedEngine([EOS], due_s=[None, 0.0004, 2.5, None])
    run(engine, channel)
    assert channel.waited_ms == [1, 2500]
    assert engine.due_s == []


@pytest.mark.parametrize(
    ("answer", "cancel", "kept"),
    [
        ([*b"ok", EOS], None, 1),
        ([*b"ok", *b"0123456789"], Cancel(1), 1),
        ([65, EngineFault(FailCode.ENGINE_ERROR, "broken", is_fatal=False)], None, 0),
    ],
    ids=["ended", "cancelled", "failed"],
)
def test_only_a_failed_request_is_not_kept(answer: list[int | Exception], cancel: Cancel | None, kept: int) -> None:
    polled = (lambda sent: None) if cancel is None else once(cancel, lambda sent: len(sent) == 4)
    channel = ScriptedChannel([request()], polled)
    engine = ScriptedEngine(answer)
    run(engine, channel)
    assert (engine.kept, engine.closed) == (kept, 1 - kept)
