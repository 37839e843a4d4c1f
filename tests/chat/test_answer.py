"""The whole way from generated pieces to an answer: streamed and whole are the same, whatever the split."""

import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism.chat.answer import AnswerPipeline, FinishedAnswer, ToolReading
from prism.chat.answer_pieces import AnswerPiece, ContentText, ReasoningText
from prism.chat.reasoning import ReasoningSplitter
from prism.chat.reasoning_tags import THINK
from prism.chat.tool_family import ToolFamily

TOOLS = ToolReading({"f": None}, ToolFamily.HERMES)
CALL = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
FRAGMENTS = [
    "<think>", "</think>", "\n<think>", "<thi", "<", ">", "\n", "  ", "a", "b", "END", "EN", "STOP", "word ", CALL, "<tool_call>",
    '{"name": "f", "arguments": {}}', "{", "[", "</tool_call>", '{"x": "END"}', "é",
]  # fmt: skip
STOPS = st.lists(st.sampled_from(["END", "STOP", "\n", "a", "<t", "</tool_call>", "D"]), max_size=3, unique=True)


@st.composite
def texts_in_pieces(draw: st.DrawFn) -> list[str]:
    text = draw(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [piece for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True) if (piece := text[start:end])]


def pipeline(
    stops: Sequence[str] = (), tools: ToolReading | None = None, *, is_raw: bool = False, is_opened: bool = False
) -> AnswerPipeline:
    splitter = None if is_raw else ReasoningSplitter(opened_by_prompt=THINK if is_opened else None)
    return AnswerPipeline(stops=stops, splitter=splitter, tool_reading=tools)


def run(answer: AnswerPipeline, pieces: Sequence[str]) -> tuple[list[AnswerPiece], FinishedAnswer]:
    sent: list[AnswerPiece] = []

    for number, piece in enumerate(pieces, start=1):
        sent.extend(answer.feed(piece, number))

        if answer.is_stopped:
            break

    finished = answer.finish()
    return [*sent, *finished.pieces], finished


def joined(sent: list[AnswerPiece], kind: type[ReasoningText | ContentText]) -> str:
    return "".join(piece.text for piece in sent if isinstance(piece, kind))


def facts(finished: FinishedAnswer) -> tuple[object, ...]:
    calls = [(call.name, call.arguments) for call in finished.calls]
    return finished.content, finished.reasoning, calls, finished.is_stopped, finished.is_call_cut


@given(
    pieces=texts_in_pieces(),
    stops=STOPS,
    family=st.none() | st.sampled_from(ToolFamily),
    is_raw=st.booleans(),
    is_opened=st.booleans(),
)
@settings(max_examples=400, deadline=None)
def test_stream_equals_whole_for_any_split(
    pieces: list[str], stops: list[str], family: ToolFamily | None, is_raw: bool, is_opened: bool
) -> None:
    tools = None if family is None else ToolReading(TOOLS.tools, family)
    sent, finished = run(pipeline(stops, tools, is_raw=is_raw, is_opened=is_opened), pieces)
    whole_text = ["".join(pieces)] if pieces else []
    _, whole = run(pipeline(stops, tools, is_raw=is_raw, is_opened=is_opened), whole_text)
    single, by_character = run(pipeline(stops, tools, is_raw=is_raw, is_opened=is_opened), "".join(pieces))

    assert facts(finished) == facts(whole) == facts(by_character)
    assert joined(sent, ContentText) == joined(single, ContentText) == (finished.content or "")
    assert joined(sent, ReasoningText) == joined(single, ReasoningText) == (finished.reasoning or "")
    assert not any(stop in (finished.content or "") for stop in stops)


@given(pieces=texts_in_pieces(), stops=STOPS, is_opened=st.booleans())
@settings(deadline=None)
def test_text_behind_the_stop_changes_nothing(pieces: list[str], stops: list[str], is_opened: bool) -> None:
    """The worker may send some more pieces before the cancel reaches it."""
    _, expected = run(pipeline(stops, is_opened=is_opened), pieces)
    answer = pipeline(stops, is_opened=is_opened)

    for number, piece in enumerate(pieces, start=1):
        answer.feed(piece, number)

    assert facts(answer.finish()) == facts(expected)


@given(pieces=texts_in_pieces(), is_opened=st.booleans())
@settings(deadline=None)
def test_reasoning_tokens_never_exceed_all_tokens(pieces: list[str], is_opened: bool) -> None:
    _, finished = run(pipeline(is_opened=is_opened), pieces)
    assert 0 <= finished.reasoning_tokens <= len(pieces)
    assert (finished.reasoning_tokens > 0) == (finished.reasoning is not None)


def test_answer_streams_token_by_token() -> None:
    answer = pipeline()
    assert list(answer.feed("Hello", 1)) == [ContentText("Hello")]
    assert list(answer.feed(" world", 2)) == [ContentText(" world")]
    finished = answer.finish()
    assert (finished.pieces, finished.content, finished.reasoning) == ((), "Hello world", None)


def test_stop_string_ends_the_answer_and_is_not_shown() -> None:
    """B-26: no partial leak across pieces; the generation can be cancelled at once."""
    answer = pipeline(["own fox"])
    sent = [
        piece for number, text in enumerate(["The quick br", "own", " fox"], 1) for piece in answer.feed(text, number)
    ]
    assert answer.is_stopped
    assert joined(sent, ContentText) == "The quick br"
    assert answer.feed(" jumps", 4) == ()
    finished = answer.finish()
    assert (finished.pieces, finished.content, finished.is_stopped) == ((), "The quick br", True)


def test_text_that_only_began_like_a_stop_string_is_flushed() -> None:
    """Case 73."""
    sent, finished = run(pipeline(["\nUser:"]), ["Hi", "\nUs"])
    assert joined(sent, ContentText) == finished.content == "Hi\nUs"
    assert not finished.is_stopped


def test_stop_string_inside_thinking_does_not_end_the_answer() -> None:
    """D-09 and case 75."""
    _, finished = run(pipeline(["END"]), ["<think>", "the END is", "</think>", "near END", "x"])
    assert (finished.reasoning, finished.content, finished.is_stopped) == ("the END is", "near ", True)


def test_stop_string_that_a_closing_tag_would_complete_does_not_break_the_tag() -> None:
    _, finished = run(pipeline(["</"]), ["<think>hm", "</think>", "a</b"])
    assert (finished.reasoning, finished.content) == ("hm", "a")


def test_stop_string_inside_a_call_does_not_end_the_answer() -> None:
    """D-09."""
    answer = pipeline(["arguments", "}"], TOOLS)
    _, finished = run(answer, ["Well: ", *CALL, " So } it"])
    assert [json.loads(call.arguments) for call in finished.calls] == [{"a": 1}]
    assert (finished.content, finished.is_stopped) == ("Well:\nSo ", True)


def test_stop_string_before_a_call_ends_the_answer() -> None:
    answer = pipeline(["END"], TOOLS)
    answer.feed("Well END", 1)
    assert answer.is_stopped
    answer.feed(CALL, 2)
    finished = answer.finish()
    assert (finished.content, finished.calls) == ("Well ", ())


def test_stop_string_in_a_bare_call_does_not_break_it_and_in_bare_json_ends_the_answer() -> None:
    _, finished = run(pipeline(["}"], TOOLS), list('{"name": "f", "arguments": {"a": 1}}'))
    assert (finished.content, len(finished.calls), finished.is_stopped) == (None, 1, False)
    _, finished = run(pipeline(["}"], TOOLS), list('{"name": "Alice"}'))
    assert (finished.content, finished.calls, finished.is_stopped) == ('{"name": "Alice"', (), True)


def test_thinking_before_a_call_is_told_apart() -> None:
    sent, finished = run(pipeline(tools=TOOLS), ["<think>", "I call f", "</think>", "\n\n", *CALL])
    assert sent == [ReasoningText("I call f")]
    assert (finished.reasoning, finished.content) == ("I call f", None)
    assert [call.name for call in finished.calls] == ["f"]


def test_call_mentioned_in_thinking_is_no_call() -> None:
    _, finished = run(pipeline(tools=TOOLS), ["<think>", CALL, "</think>No."])
    assert (finished.calls, finished.content, finished.reasoning) == ((), "No.", CALL)


def test_with_tools_nothing_is_sent_before_the_end() -> None:
    answer = pipeline(tools=TOOLS)
    assert [piece for text in ("<think>a</think>", "Hello", " you") for piece in answer.feed(text, 1)] == []
    assert answer.finish().pieces == (ReasoningText("a"), ContentText("Hello you"))


def test_content_is_null_only_beside_calls() -> None:
    assert run(pipeline(tools=TOOLS), [CALL])[1].content is None
    assert run(pipeline(tools=TOOLS), ["<think>a"])[1].content == ""
    assert run(pipeline(), [])[1].content == ""


def test_cut_call_is_shown_as_text() -> None:
    """Case 100."""
    sent, finished = run(pipeline(tools=TOOLS), [CALL[:30]])
    assert sent == [ContentText(CALL[:30])]
    assert (finished.content, finished.calls) == (CALL[:30], ())


def test_cut_behind_a_complete_call_is_told() -> None:
    _, finished = run(pipeline(tools=TOOLS), [CALL + CALL[:30]])
    assert (len(finished.calls), finished.is_call_cut) == (1, True)


def test_raw_completion_keeps_tags() -> None:
    """B-55: the legacy endpoint is untouched."""
    sent, finished = run(pipeline(is_raw=True), ["<think>", "a", "</think>", "b"])
    assert joined(sent, ContentText) == finished.content == "<think>a</think>b"
    assert (finished.reasoning, finished.reasoning_tokens) == (None, 0)


def test_raw_completion_obeys_stop_strings() -> None:
    _, finished = run(pipeline(["b"], is_raw=True), ["<think>a", "ab"])
    assert (finished.content, finished.is_stopped) == ("<think>aa", True)


@pytest.mark.parametrize(
    ("pieces", "is_opened", "tokens"),
    [
        (["<think>", "a", "b", "</think>", "\n", "c"], False, 4),
        (["<", "think", ">", "a", "</", "think", ">", "c"], False, 7),
        (["\n", "<think>", "a", "</think>", "c"], False, 4),
        (["a", "b", "</think>", "c", "d"], True, 3),
        (["<think>", "\n\n", "</think>", "c"], False, 0),
        (["<think>a</think>b"], False, 1),
        (["<", "b>"], False, 0),
        (["Sure.", "\n", "<think>", "a", "</think>", "c"], False, 3),
        (["<think>", "a"], False, 2),
        (["a", "b", "c"], False, 0),
    ],
)
def test_reasoning_tokens_are_counted(pieces: list[str], is_opened: bool, tokens: int) -> None:
    assert run(pipeline(is_opened=is_opened), pieces)[1].reasoning_tokens == tokens


def test_reasoning_tokens_are_counted_with_tools_and_several_tokens_a_piece() -> None:
    answer = pipeline(tools=TOOLS)
    answer.feed("<think>a b c", 4)
    answer.feed("</think>Hi", 6)
    answer.feed(" you", 7)
    assert answer.finish().reasoning_tokens == 6


def test_ordinary_text_costs_little() -> None:
    """The bound is generous: it is there to notice a rescan of the whole answer, not to measure."""
    answer = pipeline()

    for number in range(1, 1_000):
        answer.feed(" word", number)

    begin = time.process_time()

    for number in range(1_000, 101_000):
        answer.feed(" word", number)

    assert (time.process_time() - begin) / 100_000 < 20e-6


@pytest.mark.parametrize(
    "make",
    [
        pipeline,
        lambda: pipeline(is_raw=True),
        lambda: pipeline(["END", "\n\n", " wordy", "d w d"]),
        lambda: pipeline(is_opened=True),
        lambda: pipeline(tools=TOOLS),
        lambda: pipeline(["END"], TOOLS),
    ],
    ids=["plain", "raw", "stops", "thinking", "tools", "tools and stops"],
)
def test_a_token_late_in_an_answer_takes_no_more_steps_and_no_more_memory(make: Callable[[], AnswerPipeline]) -> None:
    answer = make()
    calls = _Calls()
    feed(answer, 0, 1_000)
    early = calls.during(lambda: feed(answer, 1_000, 2_000))
    feed(answer, 2_000, 9_000)
    late = calls.during(lambda: feed(answer, 9_000, 10_000))
    taken = taken_by_each(lambda number: feed(answer, number, number + 1), range(10_000, 10_100))

    assert late == early
    # The answer has 50 kB, and no token copies it. Now and then a list of all pieces is given more room.
    assert sum(size > 4_096 for size in taken) <= 3


def feed(answer: AnswerPipeline, begin: int, end: int) -> None:
    for number in range(begin, end):
        answer.feed(" word", number + 1)


class _Calls:
    """Counts the calls of functions, Python's and C's."""

    def during(self, work: Callable[[], None]) -> int:
        self._count = 0
        sys.setprofile(self._note)

        try:
            work()
        finally:
            sys.setprofile(None)

        return self._count

    def _note(self, _: FrameType, event: str, __: object) -> None:
        self._count += event in {"call", "c_call"}


def taken_by_each(work: Callable[[int], None], numbers: range) -> list[int]:
    """Return how many bytes more than before were taken at most, during each piece of work."""
    taken = []
    tracemalloc.start()

    try:
        for number in numbers:
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            work(number)
            taken.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()

    return taken
