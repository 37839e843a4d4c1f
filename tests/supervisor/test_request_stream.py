"""One request as its reader sees it: messages in order, then exactly one end, whoever says it first."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipc.messages import (
    Delta,
    FailCode,
    Failed,
    Finished,
    FinishReason,
    RejectCode,
    Rejected,
    RequestMessage,
    Started,
)
from supervisor.errors import (
    ContextLengthExceeded,
    EngineFailed,
    EngineOutOfMemory,
    InvalidForModel,
    ServerDraining,
    SupervisorError,
    WorkerDied,
    WorkerUnresponsive,
)
from supervisor.request_stream import Answer, RequestStream

STARTED = Started(request_id=1, prompt_tokens=3, max_tokens=8)


def delta(number: int) -> Delta:
    return Delta(request_id=1, text=f"{number}", completion_tokens=number)


def finished(reason: FinishReason = FinishReason.STOP) -> Finished:
    return Finished(
        request_id=1,
        reason=reason,
        prompt_tokens=3,
        completion_tokens=2,
        cached_tokens=0,
        ttft_sec=0.1,
        decode_tok_per_sec=1.0,
    )


def failed(code: FailCode = FailCode.ENGINE_ERROR) -> Failed:
    return Failed(request_id=1, code=code, message="broke", is_fatal=False)


def rejected(code: RejectCode = RejectCode.INVALID_REQUEST) -> Rejected:
    return Rejected(request_id=1, code=code, message="too much")


async def never_again(_: RequestStream) -> None:
    """Stand for a next worker that dies as well."""
    raise WorkerDied("gone again")


def new_stream() -> RequestStream:
    stream = RequestStream(never_again)
    stream.bind(1, lambda _: None)
    return stream


class Cancels:
    """What the worker is told."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.stream = RequestStream(never_again)
        self.stream.bind(1, self.sent.append)


@pytest.fixture
def cancels() -> Cancels:
    return Cancels()


@pytest.fixture
def stream(cancels: Cancels) -> RequestStream:
    return cancels.stream


async def test_messages_come_in_order_up_to_the_end(stream: RequestStream) -> None:
    for message in (STARTED, delta(1), delta(2), finished()):
        stream.take(message)

    assert [message async for message in stream] == [STARTED, delta(1), delta(2), finished()]
    assert stream.ended.is_set()
    assert [message async for message in stream] == []


async def test_a_reader_waits_for_what_has_not_come_yet(stream: RequestStream) -> None:
    reading = asyncio.create_task(stream.receive())
    await asyncio.sleep(0)
    assert not reading.done()
    stream.take(STARTED)
    assert await reading == STARTED


async def test_what_is_ready_is_given_without_waiting(stream: RequestStream) -> None:
    assert stream.receive_ready() is None
    stream.take(STARTED)
    assert stream.receive_ready() == STARTED
    stream.fail(WorkerDied("gone"))

    with pytest.raises(WorkerDied, match="gone"):
        stream.receive_ready()

    assert [message async for message in stream] == []


@pytest.mark.parametrize(
    ("end", "error", "words"),
    [
        (rejected(RejectCode.CONTEXT_LENGTH_EXCEEDED), ContextLengthExceeded, "too much"),
        (rejected(RejectCode.INVALID_REQUEST), InvalidForModel, "too much"),
        (failed(FailCode.ENGINE_ERROR), EngineFailed, "broke"),
        (failed(FailCode.OUT_OF_MEMORY), EngineOutOfMemory, "broke"),
    ],
)
async def test_each_end_that_is_no_finish_has_its_error(
    stream: RequestStream, end: Rejected | Failed, error: type[SupervisorError], words: str
) -> None:
    stream.take(end)

    with pytest.raises(error, match=words) as raised:
        await stream.receive()

    assert type(raised.value) is error
    assert stream.ended.is_set()


async def test_every_code_of_the_worker_is_translated() -> None:
    ends: list[Failed | Rejected] = [*map(failed, FailCode), *map(rejected, RejectCode)]

    for end in ends:
        other = new_stream()
        other.take(end)

        with pytest.raises(SupervisorError):
            await other.receive()


async def test_a_cancel_is_sent_until_the_end_and_not_after_it(cancels: Cancels, stream: RequestStream) -> None:
    stream.cancel()
    stream.cancel()
    assert cancels.sent == [1, 1]
    assert not stream.ended.is_set(), "the worker has the word"
    stream.take(finished(FinishReason.CANCELLED))
    stream.cancel()
    assert cancels.sent == [1, 1]


async def test_an_abort_ends_the_reader_at_once_and_the_request_when_the_worker_says_so(
    cancels: Cancels, stream: RequestStream
) -> None:
    stream.take(STARTED)
    stream.abort(ServerDraining("time is over"))
    assert cancels.sent == [1]
    assert await stream.receive() == STARTED

    with pytest.raises(ServerDraining):
        await stream.receive()

    assert not stream.ended.is_set()
    stream.take(finished(FinishReason.CANCELLED))
    assert stream.ended.is_set()
    assert [message async for message in stream] == []


async def test_an_abort_after_the_end_changes_nothing(cancels: Cancels, stream: RequestStream) -> None:
    stream.take(finished())
    stream.abort(ServerDraining("too late"))
    assert cancels.sent == []
    assert [message async for message in stream] == [finished()]


# What may happen to a request, in any order and number; the last column says whether it is an end.
EVENTS: dict[str, tuple[Callable[[RequestStream], None], bool]] = {
    "delta": (lambda s: s.take(delta(1)), False),
    "finished": (lambda s: s.take(finished()), True),
    "rejected": (lambda s: s.take(rejected()), True),
    "failed": (lambda s: s.take(failed()), True),
    "death": (lambda s: s.fail(WorkerDied("gone")), True),
    "abort": (lambda s: s.abort(ServerDraining("over")), True),
    "cancel": (lambda s: s.cancel(), False),
}


async def read_to_end(stream: RequestStream) -> tuple[list[RequestMessage], str]:
    messages: list[RequestMessage] = []

    try:
        async for message in stream:
            messages.append(message)  # noqa: PERF401  # what came before the error counts
    except SupervisorError as error:
        return messages, type(error).__name__

    return messages, "finished"


@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=12))
def test_there_is_exactly_one_end_and_nothing_after_it(names: list[str]) -> None:
    async def run() -> None:
        stream = new_stream()

        for name in [*names, "death"]:
            EVENTS[name][0](stream)

        messages, end = await asyncio.wait_for(read_to_end(stream), 5)
        first = next(name for name in [*names, "death"] if EVENTS[name][1])
        before = names[: names.index(first)] if first in names else names
        assert len([m for m in messages if isinstance(m, Delta)]) == before.count("delta")
        expected = {
            "finished": "finished",
            "rejected": "InvalidForModel",
            "failed": "EngineFailed",
            "death": "WorkerDied",
            "abort": "ServerDraining",
        }
        assert end == expected[first]
        assert sum(isinstance(m, Finished) for m in messages) == (first == "finished")
        assert stream.ended.is_set()
        # After an abort the worker's own end comes too, and is not read.
        assert first == "abort" or stream.receive_ready() is None

    asyncio.run(run())


async def test_a_reader_that_leaves_and_another_that_comes_lose_nothing(stream: RequestStream) -> None:
    reading = asyncio.create_task(stream.receive())
    await asyncio.sleep(0)
    stream.take(STARTED)
    reading.cancel()
    await asyncio.wait({reading})
    stream.take(finished())
    rest: list[Answer] = [message async for message in stream]
    assert rest == [STARTED, finished()]


class NextWorker:
    """Takes a request that the worker before has not begun, when it may."""

    def __init__(self) -> None:
        self.times = 0
        self.may_begin = asyncio.Event()
        self.may_begin.set()
        self.sent: list[int] = []
        self.stream = RequestStream(self.begin)
        self.stream.bind(1, lambda _: None)

    async def begin(self, stream: RequestStream) -> None:
        assert stream is self.stream
        self.times += 1
        await self.may_begin.wait()
        stream.bind(7, self.sent.append)


async def test_a_death_before_the_first_word_is_no_news_and_the_next_worker_answers() -> None:
    following = NextWorker()
    following.stream.fail(WorkerDied("gone"))
    assert following.stream.receive_ready() is None
    reading = asyncio.create_task(following.stream.receive())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not following.stream.ended.is_set()
    following.stream.take(STARTED)
    assert await reading == STARTED
    following.stream.cancel()
    assert following.sent == [7]
    following.stream.take(finished())
    assert [message async for message in following.stream] == [finished()]


@pytest.mark.parametrize("word", [STARTED, delta(1)])
async def test_a_death_after_the_first_word_is_told(word: Answer) -> None:
    following = NextWorker()
    following.stream.take(word)
    following.stream.fail(WorkerDied("gone"))
    assert await following.stream.receive() == word

    with pytest.raises(WorkerDied):
        await following.stream.receive()

    assert following.times == 0


async def test_a_second_death_before_the_first_word_is_told() -> None:
    following = NextWorker()
    following.stream.fail(WorkerDied("gone"))
    reading = asyncio.create_task(following.stream.receive())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    following.stream.fail(WorkerDied("gone again"))

    with pytest.raises(WorkerDied, match="gone again"):
        await reading

    assert following.times == 1


@pytest.mark.parametrize("error", [WorkerUnresponsive("hangs"), ServerDraining("over")])
async def test_an_end_of_another_kind_is_told_at_once(error: SupervisorError) -> None:
    following = NextWorker()
    following.stream.fail(error)

    with pytest.raises(type(error)):
        await following.stream.receive()

    assert following.times == 0


async def test_a_next_worker_that_cannot_begin_is_the_end() -> None:
    stream = new_stream()
    stream.fail(WorkerDied("gone"))

    with pytest.raises(WorkerDied, match="gone again"):
        await stream.receive()

    assert stream.ended.is_set()
    assert [message async for message in stream] == []


async def test_a_reader_may_leave_while_the_next_worker_is_made_ready() -> None:
    following = NextWorker()
    following.may_begin.clear()
    following.stream.fail(WorkerDied("gone"))
    reading = asyncio.create_task(following.stream.receive())
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait({reading})
    assert reading.cancelled()
    assert following.stream.ended.is_set(), "no worker has it"
