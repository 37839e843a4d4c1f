"""Chats with models of the daemon through a whole server: what the daemon says is what the client gets, in the shape of the API."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.ollama.chat import ChatReply
from prism.ollama.errors import BadDaemonAnswer, DaemonCutShort, DaemonRefused, OllamaError
from tests.ollama.conftest import StartBeside
from tests.ollama.fake_daemon import FakeDaemon, call, fault, last, line
from tests.whole.conftest import Server, content_of

USAGE = {"prompt_tokens": 26, "completion_tokens": 282, "total_tokens": 308}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


async def both_ways(server: Server, **fields: Any) -> tuple[Any, list[Any]]:
    """Return the choice of a whole answer, and the events of the same as a stream without [DONE]."""
    answer = await server.chat("ollama:m", **fields)
    assert answer["model"] == "ollama:m"
    (choice,) = answer["choices"]
    events = await server.stream("ollama:m", **fields)
    assert events[-1] == "[DONE]"
    return choice, events[:-1]


def joined(events: list[Any], key: str) -> str:
    return "".join(event["choices"][0]["delta"].get(key) or "" for event in events if event["choices"])


async def test_a_whole_answer(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    daemon.chats["m"] = (line("Hel"), line("lo"), last())
    answer = await (await start_beside()).chat("ollama:m")
    assert answer["id"].startswith("chatcmpl-")
    assert (answer["object"], answer["model"]) == ("chat.completion", "ollama:m")
    message = {"role": "assistant", "content": "Hello"}
    assert answer["choices"] == [{"index": 0, "message": message, "finish_reason": "stop"}]
    assert answer["usage"] == USAGE
    assert answer.keys() == {"id", "object", "created", "model", "choices", "usage"}
    assert daemon.bodies()[0]["stream"] is True


async def test_a_stream(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    daemon.chats["m"] = (line("Hel"), line("lo"), last())
    server = await start_beside()
    events = await server.stream("ollama:m", stream_options={"include_usage": True})
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert content_of(events) == "Hello"
    assert events[-3]["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert (events[-2]["choices"], events[-2]["usage"]) == ([], USAGE)
    assert "telemetry" not in events[-2]
    assert all(event["usage"] is None for event in events[:-2])
    assert len({(event["id"], event["created"], event["model"]) for event in events[:-1]}) == 1
    assert all("usage" not in event for event in (await server.stream("ollama:m"))[:-1])


@pytest.mark.parametrize("figures", [{"prompt_eval_count": None}, {"eval_count": None}, {"eval_count": -1}])
async def test_without_counts_there_is_no_usage(
    start_beside: StartBeside, daemon: FakeDaemon, figures: dict[str, Any]
) -> None:
    """B-43: numbers that the daemon did not tell were made up."""
    daemon.chats["m"] = (line("x"), last(**figures))
    server = await start_beside()
    assert "usage" not in await server.chat("ollama:m")
    events = await server.stream("ollama:m", stream_options={"include_usage": True})
    assert events[-2]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("told", "reason"), [("stop", "stop"), ("length", "length"), (None, "stop"), ("something new", "stop")]
)
async def test_the_reason_is_the_daemons(
    start_beside: StartBeside, daemon: FakeDaemon, told: str | None, reason: str
) -> None:
    daemon.chats["m"] = (line("x"), last(told))
    choice, events = await both_ways(await start_beside())
    assert choice["finish_reason"] == events[-1]["choices"][0]["finish_reason"] == reason


PIECES = ["def f():", "\n        ", "return", " 1\n", "\n\n", "       ", "\t", " return", "  \n"]


async def test_white_space_is_never_lost(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    """D-01: runs of eight blanks and more were dropped from streams."""
    daemon.chats["m"] = (*map(line, PIECES), last())
    choice, events = await both_ways(await start_beside())
    assert choice["message"]["content"] == joined(events, "content") == "".join(PIECES)


async def test_characters_that_came_in_two_pieces_are_whole(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    text = "😀 Grüße 漢字 👩‍👩‍👧"
    whole = line(text) + last()
    daemon.chats["m"] = [whole[at : at + 1] for at in range(len(whole))]
    choice, events = await both_ways(await start_beside())
    assert choice["message"]["content"] == joined(events, "content") == text


async def test_thinking_is_told_apart(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    daemon.chats["m"] = (line(thinking="hm "), line(thinking="well\n"), line("Yes <think> no"), last())
    choice, events = await both_ways(await start_beside(), reasoning_effort="high")
    assert choice["message"]["reasoning_content"] == joined(events, "reasoning_content") == "hm well\n"
    assert choice["message"]["content"] == joined(events, "content") == "Yes <think> no"
    assert [body["think"] for body in daemon.bodies()] == ["high", "high"]


async def test_thinking_between_tags_is_told_apart_too(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    """Daemons without thinking of their own leave it in the content."""
    daemon.chats["m"] = (line("<thi"), line("nk>hm</think>\n\nYes"), last())
    choice, events = await both_ways(await start_beside())
    assert choice["message"]["reasoning_content"] == joined(events, "reasoning_content") == "hm"
    assert choice["message"]["content"] == joined(events, "content") == "Yes"


@pytest.mark.parametrize(
    ("model", "asked"),
    [("plain", ["high", True, None]), ("old", ["high", True]), ("new", ["high"])],
)
async def test_a_model_that_cannot_think_so_is_asked_without(
    start_beside: StartBeside, daemon: FakeDaemon, model: str, asked: list[object]
) -> None:
    daemon.chats[model] = (line("Yes"), last())
    answer = await (await start_beside()).chat(f"ollama:{model}", reasoning_effort="high")
    assert answer["choices"][0]["message"]["content"] == "Yes"
    assert [body.get("think") for body in daemon.bodies()] == asked
    assert daemon.open_chats == 0


async def test_calls_have_ids_and_indexes_of_their_own(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    same = call("weather", {"city": "Ås", "days": 2}, index=0)
    daemon.chats["m"] = (line("Let me look."), line(tool_calls=[same, same]), line(tool_calls=[same]), last())
    choice, events = await both_ways(await start_beside(), tools=[WEATHER])
    assert choice["finish_reason"] == events[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == joined(events, "content") == "Let me look."
    streamed = [one for event in events for one in event["choices"][0]["delta"].get("tool_calls", [])]
    assert [one["index"] for one in streamed] == [0, 1, 2]
    calls = choice["message"]["tool_calls"]
    assert len({one["id"] for one in (*calls, *streamed)}) == 6

    for one in (*calls, *streamed):
        assert one["type"] == "function"
        assert one["function"]["name"] == "weather"
        assert json.loads(one["function"]["arguments"]) == {"city": "Ås", "days": 2}

    assert daemon.bodies()[0]["tools"] == [WEATHER]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (None, "{}"),
        ({}, "{}"),
        ('{"a":1}', '{"a":1}'),
        ([1], "[1]"),
        ({"a": 10**40, "b": 0.1, "ü": "\n"}, '{"a": 10000000000000000000000000000000000000000, "b": 0.1, "ü": "\\n"}'),
    ],
)
async def test_arguments_are_a_text(
    start_beside: StartBeside, daemon: FakeDaemon, arguments: object, text: str
) -> None:
    daemon.chats["m"] = (line(tool_calls=[call("weather", arguments)]), last())
    choice, events = await both_ways(await start_beside(), tools=[WEATHER])
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == text
    assert events[-2]["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] == text


async def test_a_stop_string_that_the_daemon_lets_through_ends_the_answer(
    start_beside: StartBeside, daemon: FakeDaemon
) -> None:
    daemon.chats["m"] = (line("The quick br"), line("own f"), line("ox jumps"), *map(line, "abc" * 99), last("length"))
    choice, events = await both_ways(await start_beside(), stop=["own fox", "zzz"])
    assert choice["message"]["content"] == joined(events, "content") == "The quick br"
    assert choice["finish_reason"] == events[-1]["choices"][0]["finish_reason"] == "stop"
    assert daemon.bodies()[0]["options"]["stop"] == ["own fox", "zzz"]


async def test_what_looks_like_the_beginning_of_a_stop_string_is_not_lost(
    start_beside: StartBeside, daemon: FakeDaemon
) -> None:
    daemon.chats["m"] = (line("own f"), last())
    choice, events = await both_ways(await start_beside(), stop="own fox")
    assert choice["message"]["content"] == joined(events, "content") == "own f"


async def test_a_prompt_that_was_cut_is_told(
    start_beside: StartBeside, daemon: FakeDaemon, caplog: pytest.LogCaptureFixture
) -> None:
    """Case 94: daemons before 0.12.6 cut it to `num_ctx` without a word."""
    daemon.chats["m"] = (line("x"), last(prompt_eval_count=2050))
    server = await start_beside()
    answer = await server.chat("ollama:m", content="word " * 5000)
    assert answer["prompt_truncated"] is True
    events = await server.stream("ollama:m", content="word " * 5000)
    assert [event.get("prompt_truncated") for event in events[-2:-1]] == [True]
    assert all("prompt_truncated" not in event for event in events[:-2])
    assert "read 2050 tokens of a prompt of at least 5000" in caplog.text
    assert all(body["truncate"] is False for body in daemon.bodies())


TOO_LONG = (
    '{"error":{"code":400,"message":"request (8889 tokens) exceeds the available context size (4096 tokens), try increasing it",'
    '"type":"exceed_context_size_error","n_prompt_tokens":8889,"n_ctx":4096}}'
)


@pytest.mark.parametrize("told", [TOO_LONG, "the input length exceeds the context length"])
async def test_a_daemon_that_refuses_a_long_prompt_is_heard(
    start_beside: StartBeside, daemon: FakeDaemon, told: str
) -> None:
    daemon.refusals["m"] = (400, told)
    server = await start_beside()

    async with server.post("/v1/chat/completions", {"model": "ollama:m", "messages": [{"role": "user"}]}) as response:
        error = (await response.json())["error"]

    assert (response.status, error["code"], error["param"]) == (400, "context_length_exceeded", "messages")
    assert "8889" in error["message"] or "input length" in error["message"]
    assert "{" not in error["message"]


async def test_other_parts_than_text_and_pictures_are_told(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    daemon.chats["m"] = (line("x"), last())
    server = await start_beside()
    parts = [{"type": "text", "text": "a"}, {"type": "input_audio"}]
    body = {"model": "ollama:m", "messages": [{"role": "user", "content": parts}]}

    async with server.post("/v1/chat/completions", body) as response:
        assert response.headers["X-Prism-Dropped-Parts"] == "1"


async def test_numbers_are_checked_and_penalties_are_taken(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    daemon.chats["m"] = (line("x"), last())
    server = await start_beside()
    await server.chat("ollama:m", frequency_penalty=2, presence_penalty=-2)
    body = {"model": "ollama:m", "messages": [{"role": "user"}], "frequency_penalty": 2.1}

    async with server.post("/v1/chat/completions", body) as response:
        assert (await response.json())["error"]["param"] == "frequency_penalty"

    assert len(daemon.bodies()) == 1


class Answer:
    """Lines of the daemon in batches, without a daemon."""

    def __init__(self, batches: list[list[bytes]]) -> None:
        self._batches = iter(batches)

    async def next_lines(self) -> list[bytes]:
        return next(self._batches, [])


CONTENTS = st.lists(st.text(st.sampled_from("ab <>/think\n"), max_size=8), max_size=12)


@given(CONTENTS, st.lists(st.integers(0, 12)), st.booleans())
async def test_joined_pieces_are_the_whole_however_lines_come(contents: list[str], cuts: list[int], tags: bool) -> None:
    lines = [*map(line, contents), last()]
    ends = [*sorted(min(cut, len(lines)) for cut in cuts if cut), len(lines)]
    batches = [lines[begin:end] for begin, end in zip([0, *ends], ends, strict=False) if end > begin]
    reply = ChatReply(Answer(batches), ("a b",), tags=tags)  # type: ignore[arg-type]  # all that is asked of an answer
    await reply.wait_begun()
    pieces: list[Any] = []

    while reply.outcome is None:
        pieces += await reply.next_pieces()

    text = {
        kind: "".join(p.text for p in pieces if type(p).__name__ == kind) for kind in ("ContentText", "ReasoningText")
    }
    assert (reply.outcome.content, reply.outcome.reasoning or "") == (text["ContentText"], text["ReasoningText"])

    if not tags:
        assert text["ContentText"] == "".join(contents).partition("a b")[0]


async def test_what_came_before_a_fault_is_handed_on_first() -> None:
    reply = ChatReply(Answer([[line("a"), line("b"), fault("x"), last()]]), (), tags=True)  # type: ignore[arg-type]  # as above
    await reply.wait_begun()
    assert "".join(piece.text for piece in await reply.next_pieces()) == "ab"

    with pytest.raises(DaemonRefused, match="x"):
        await reply.next_pieces()


ODD_LINES = [
    b'{"message": {"content": 7}}',
    b'{"message": "text", "done": false}',
    b'{"done": "yes"}',
    b'{"done": true, "eval_count": "many"}',
    b'{"message": {"tool_calls": {}}}',
    b'{"message": {"tool_calls": [{}]}}',
    b'{"message": {"tool_calls": [{"function": {"name": ""}}]}}',
    b'{"message": {"tool_calls": [{"function": {"name": "a", "arguments": "\\ud83d"}}]}}',
    b'{"message": {"tool_calls": [{"function": {"name": "a", "arguments": {"a": "\xff"}}}]}}',
    b'{"message": {"content": "\\ud83d"}}',
    b'{"eval_count": 1e400}',
    b'"text"',
    b"null",
    b"[1, 2",
    b"\x00",
    b"\xef\xbb\xbf{}",
    b"data: {}",
]


@pytest.mark.parametrize("odd", ODD_LINES)
async def test_a_line_that_is_not_of_the_api_is_one_error(odd: bytes) -> None:
    reply = ChatReply(Answer([[line("a")], [odd], [last()]]), (), tags=True)  # type: ignore[arg-type]  # as above
    await reply.wait_begun()
    await reply.next_pieces()

    with pytest.raises(BadDaemonAnswer, match="it sent"):
        await reply.next_pieces()


@given(st.binary(max_size=40), st.integers(0, 120))
async def test_no_damage_to_a_line_is_more_than_one_error(damage: bytes, at: int) -> None:
    good = line("abc", tool_calls=[call("weather", {"a": [1, {"b": None}]})]).rstrip()
    damaged = good[:at] + damage.replace(b"\n", b"") + good[at + len(damage) :]
    reply = ChatReply(Answer([[damaged], [last()]]), (), tags=True)  # type: ignore[arg-type]  # as above

    with contextlib.suppress(OllamaError):
        await reply.wait_begun()

        while reply.outcome is None:
            await reply.next_pieces()


async def test_an_end_without_a_last_line_is_no_end() -> None:
    """D-07: a stream that was cut was told as a whole answer."""
    reply = ChatReply(Answer([[line("a")]]), (), tags=True)  # type: ignore[arg-type]  # as above
    await reply.wait_begun()
    await reply.next_pieces()

    with pytest.raises(DaemonCutShort):
        await reply.next_pieces()
