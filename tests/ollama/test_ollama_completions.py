"""Text completions with models of the daemon: each prompt one user message, the answers in order, thinking as text."""

from typing import Any

import pytest

from tests.ollama.conftest import StartBeside
from tests.ollama.fake_daemon import FakeDaemon, cut, last, line
from tests.whole.conftest import Server, events_of

PATH = "/v1/completions"


async def complete(server: Server, **fields: Any) -> Any:
    async with server.post(PATH, {"model": "ollama:m", "prompt": "Once", **fields}) as response:
        assert response.status == 200, await response.text()
        return events_of(await response.text()) if fields.get("stream") else await response.json()


def text_of(events: list[Any], index: int = 0) -> str:
    choices = [choice for event in events[:-1] for choice in event["choices"] if choice["index"] == index]
    return "".join(choice["text"] for choice in choices)


async def test_a_prompt_is_one_user_message(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    daemon.chats["m"] = (line(" upon"), line("  a time"), last("length"))
    answer = await complete(await start_beside(), max_tokens=4, stop="END")
    assert answer["id"].startswith("cmpl-")
    assert answer["object"] == "text_completion"
    assert answer["choices"] == [{"index": 0, "text": " upon  a time", "finish_reason": "length"}]
    assert answer["usage"] == {"prompt_tokens": 26, "completion_tokens": 282, "total_tokens": 308}
    assert "telemetry" not in answer
    (body,) = daemon.bodies()
    assert body["messages"] == [{"role": "user", "content": "Once"}]
    assert (body["options"]["num_predict"], body["options"]["stop"]) == (4, ["END"])


async def test_a_stream(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    daemon.chats["m"] = (line(" upon"), line("  a time"), last())
    events = await complete(await start_beside(), stream=True, stream_options={"include_usage": True})
    assert text_of(events[:-1]) == " upon  a time"
    assert events[-3]["choices"] == [{"index": 0, "text": "", "finish_reason": "stop"}]
    assert (events[-2]["choices"], events[-2]["usage"]["total_tokens"]) == ([], 308)


@pytest.mark.parametrize("stream", [False, True])
async def test_several_prompts_are_answered_in_order(
    start_beside: StartBeside, daemon: FakeDaemon, stream: bool
) -> None:
    daemon.chats["m"] = (line("x"), last())
    fields = {"stream_options": {"include_usage": True}} if stream else {}
    answer = await complete(await start_beside(), prompt=["a", "b", "c"], stream=stream, **fields)
    usage = answer[-2]["usage"] if stream else answer["usage"]
    assert usage == {"prompt_tokens": 78, "completion_tokens": 846, "total_tokens": 924}
    assert [body["messages"][0]["content"] for body in daemon.bodies()] == ["a", "b", "c"]

    if stream:
        assert [text_of(answer[:-1], number) for number in range(3)] == ["x"] * 3
    else:
        assert [(choice["index"], choice["text"]) for choice in answer["choices"]] == [(0, "x"), (1, "x"), (2, "x")]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ((line(thinking="h"), line(thinking="m"), line("Yes")), "<think>hm</think>Yes"),
        ((line(thinking="hm"),), "<think>hm</think>"),
        ((line("<think>hm</think>\n\nYes"),), "<think>hm</think>\n\nYes"),
    ],
)
async def test_thinking_stays_text(
    start_beside: StartBeside, daemon: FakeDaemon, lines: tuple[bytes, ...], text: str, stream: bool
) -> None:
    daemon.chats["m"] = (*lines, last())
    answer = await complete(await start_beside(), stream=stream)
    assert (text_of(answer) if stream else answer["choices"][0]["text"]) == text


async def test_a_later_prompt_that_fails_ends_the_stream_with_an_error(
    start_beside: StartBeside, daemon: FakeDaemon
) -> None:
    server = await start_beside()
    daemon.chats["m"] = (line("x"), cut)
    events = await complete(server, stream=True, prompt=["a", "b"])
    assert (events[-2]["error"]["code"], events[-1]) == ("backend_unavailable", "[DONE]")
    assert text_of(events[:-1]) == "x"


@pytest.mark.parametrize("stream", [False, True])
async def test_without_counts_there_is_no_usage(start_beside: StartBeside, daemon: FakeDaemon, stream: bool) -> None:
    daemon.chats["m"] = (line("x"), last(eval_count=None))
    fields = {"stream_options": {"include_usage": True}} if stream else {}
    answer = await complete(await start_beside(), stream=stream, **fields)
    assert answer[-2]["choices"] if stream else "usage" not in answer


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_that_was_cut_is_told(start_beside: StartBeside, daemon: FakeDaemon, stream: bool) -> None:
    daemon.chats["m"] = (line("x"), last(prompt_eval_count=1030))
    answer = await complete(await start_beside(), prompt="word " * 2000, stream=stream)
    assert (answer[-2] if stream else answer)["prompt_truncated"] is True
