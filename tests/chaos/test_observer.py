"""The judge of what a client got: right answers pass, and each kind of wrong one is found."""

import ast
from pathlib import Path

import pytest

from benchmarks.chaos.observer import ANSWERED, UNFINISHED, Fault, Reading, read_exchange
from tests.chaos.transcripts import DONE, chunked, completion, error, event, finish, http, refusal, text, usage

ROOT = Path(__file__).parents[2]


def streamed(*parts: str, is_ended: bool = True, rest: bytes = b"") -> Reading:
    return read_exchange(chunked(*parts, is_ended=is_ended) + rest, is_over=True, wants_stream=True)


def whole(data: bytes) -> Reading:
    return read_exchange(data, is_over=True, wants_stream=False)


def faults(reading: Reading) -> list[Fault]:
    return [fault for fault, _ in reading.faults]


@pytest.mark.parametrize(
    ("parts", "outcome", "content"),
    [
        ((text("a"), text("b"), finish(), DONE), ANSWERED, "ab"),
        ((text("a") + finish("length") + DONE,), ANSWERED, "a"),
        ((text("a"), ": ping\n\n", finish("tool_calls"), usage(), DONE), ANSWERED, "a"),
        ((text("a"), error(), DONE), "engine_crashed", "a"),
        ((error("engine_unresponsive"), DONE), "engine_unresponsive", ""),
    ],
)
def test_a_right_stream_has_no_fault(parts: tuple[str, ...], outcome: str, content: str) -> None:
    reading = streamed(*parts)
    assert (reading.outcome, reading.text, reading.terminals, reading.faults) == (outcome, content, 1, [])


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ((text("a"), finish(), finish(), DONE), Fault.TWO_TERMINALS),
        ((text("a"), finish(), error(), DONE), Fault.TWO_TERMINALS),
        ((error(), error(), DONE), Fault.TWO_TERMINALS),
        ((error(), finish(), DONE), Fault.TWO_TERMINALS),
        ((finish(), DONE, DONE), Fault.TWO_DONES),
        ((finish(), DONE, text("late")), Fault.AFTER_DONE),
        ((finish(), DONE, ": ping\n\n"), Fault.AFTER_DONE),
        ((finish(), DONE, event({})), Fault.AFTER_DONE),
        ((finish(), text("late"), DONE), Fault.AFTER_TERMINAL),
        ((error(), text("late"), DONE), Fault.AFTER_TERMINAL),
        ((text("a"), finish()), Fault.NO_DONE),
        ((text("a"), error()), Fault.NO_DONE),
        ((text("a"),), Fault.NO_TERMINAL),
        ((), Fault.NO_TERMINAL),
        ((text("a"), DONE), Fault.DONE_TOO_SOON),
        ((text("a"), finish("because"), DONE), Fault.BAD_EVENT),
        ((text("a"), "data: {\n\n", finish(), DONE), Fault.BAD_EVENT),
        ((text("a"), "event: x\n\n", finish(), DONE), Fault.BAD_EVENT),
        ((text("a"), finish(), DONE, "data: half"), Fault.BAD_EVENT),
        ((text("a"), finish(number="chatcmpl-2"), DONE), Fault.OTHER_ID),
    ],
)
def test_a_wrong_stream_is_found(parts: tuple[str, ...], fault: Fault) -> None:
    assert fault in faults(streamed(*parts))


def test_a_stream_whose_last_chunk_did_not_come_is_found() -> None:
    assert faults(streamed(text("a"), finish(), DONE, is_ended=False)) == [Fault.NO_TERMINAL]


def test_a_second_answer_on_the_connection_is_found() -> None:
    assert faults(streamed(finish(), DONE, rest=http(refusal(), 500))) == [Fault.SECOND_ANSWER]
    assert faults(whole(http(completion()) + http(completion()))) == [Fault.SECOND_ANSWER]


def test_a_right_whole_answer_has_no_fault() -> None:
    for data, outcome, content in (
        (http(completion("hello")), ANSWERED, "hello"),
        (http(refusal(), 503), "server_busy", ""),
        (http(refusal(None), 400), "server_error", ""),
    ):
        reading = whole(data)
        assert (reading.outcome, reading.text, reading.terminals, reading.faults) == (outcome, content, 1, [])


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", Fault.NO_TERMINAL),
        (http(completion())[:-1], Fault.NO_TERMINAL),
        (http(completion(reason=None)), Fault.NO_TERMINAL),
        (http(completion() + completion()), Fault.BAD_BODY),
        (http(b"[]"), Fault.BAD_BODY),
        (http(b"oops", 500), Fault.BAD_BODY),
        (http(refusal(), 200), Fault.BAD_BODY),
        (http(completion(), 500), Fault.BAD_BODY),
        (chunked(text("a"), finish(), DONE), Fault.BAD_BODY),
        (b"what?", Fault.NO_HTTP),
    ],
)
def test_a_wrong_whole_answer_is_found(data: bytes, fault: Fault) -> None:
    assert fault in faults(whole(data))


def test_a_whole_answer_is_no_stream() -> None:
    assert faults(read_exchange(http(completion()), is_over=True, wants_stream=True)) == [Fault.BAD_BODY]
    refused = read_exchange(http(refusal(), 503), is_over=True, wants_stream=True)
    assert (refused.outcome, refused.faults) == ("server_busy", [])


def test_who_leaves_misses_nothing_at_any_moment() -> None:
    data = chunked(text("a"), text("b"), finish(), DONE)

    for length in range(len(data)):
        reading = read_exchange(data[:length], is_over=False, wants_stream=True)
        assert reading.faults == []
        assert reading.outcome in (UNFINISHED, ANSWERED)


def test_who_leaves_still_sees_what_is_wrong() -> None:
    data = chunked(finish(), finish(), is_ended=False)
    assert faults(read_exchange(data, is_over=False, wants_stream=True)) == [Fault.TWO_TERMINALS]


@pytest.mark.parametrize("name", ["http_answer", "observer", "replay", "explain", "wire", "havoc"])
def test_the_judge_shares_no_code_with_what_it_judges(name: str) -> None:
    tree = ast.parse((ROOT / "benchmarks" / "chaos" / f"{name}.py").read_text())
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert {module.partition(".")[0] for module in imported}.isdisjoint(
        {"prism", "supervisor", "ipc", "tests", "aiohttp"}
    )
