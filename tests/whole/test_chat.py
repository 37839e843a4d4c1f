"""Chat over HTTP with the stand-in: shapes, streams, usage, errors, disconnects."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from supervisor.host_status import HostState
from supervisor.settings import ModelRef
from tests.whole.conftest import Start, content_of, events_of

MakeModel = Callable[..., ModelRef]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


async def test_a_whole_answer_has_the_shape_of_the_api(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["Paris", " is", " it."], prompt_tokens=7)
    server = await start_server()
    answer = await server.chat()

    assert answer["object"] == "chat.completion"
    assert answer["id"].startswith("chatcmpl-")
    assert answer["model"] == "stand-in"
    assert answer["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": "Paris is it."}, "finish_reason": "stop"}
    ]
    assert answer["usage"]["prompt_tokens"] == 7
    assert answer["usage"]["completion_tokens"] == 3
    assert answer["usage"]["total_tokens"] == 10
    assert answer["telemetry"] == {"ttft_sec": 0.25, "decode_tok_per_sec": 50.0, "device": "cpu"}


async def test_a_stream_begins_with_the_role_and_ends_with_done(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["Hel", "lo"])
    server = await start_server()
    events = await server.stream()

    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert content_of(events) == "Hello"
    assert events[-2]["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert events[-1] == "[DONE]"
    assert all("usage" not in event for event in events[:-1])
    assert len({(event["id"], event["created"], event["model"]) for event in events[:-1]}) == 1


async def test_a_stream_ends_with_usage_if_asked_for(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["a", "b"], prompt_tokens=5)
    server = await start_server()
    events = await server.stream(stream_options={"include_usage": True})

    assert events[-2]["choices"] == []
    assert events[-2]["usage"]["total_tokens"] == 7
    assert events[-2]["telemetry"]["device"] == "cpu"
    assert all(event["usage"] is None for event in events[:-2])


TEXTS = {
    "code": ["def f():", "\n", "        ", "return 1", "\n\n\n"],
    "emoji": ["👩‍👩‍👧", " ", "🇫🇷", "é"],
    "cjk": ["你", "好", "，", "世界", " "],
    "thinking": ["<th", "ink>", "\nhm", "m\n", "</think>", "\n\n", "Yes", " "],
    "literal tag": ["The tag ", "<think>", " opens", " thinking."],
}


@pytest.mark.parametrize("name", TEXTS)
async def test_streamed_text_is_the_whole_text(start_server: Start, make_model: MakeModel, name: str) -> None:
    make_model(text=TEXTS[name])
    server = await start_server()
    message = (await server.chat())["choices"][0]["message"]
    events = await server.stream()
    chunks = [event["choices"][0]["delta"] for event in events[:-1]]

    assert content_of(events) == message["content"]
    assert "".join(chunk.get("reasoning_content", "") for chunk in chunks) == message.get("reasoning_content", "")


async def test_a_stop_string_ends_the_answer_and_the_work(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["The quick br", "own f", "ox ", "jumps"] + ["."] * 400, delay_s=0.002)
    server = await start_server()
    answer = await server.chat(stop=["own fox"], max_tokens=500)

    assert answer["choices"][0] == {
        "index": 0,
        "message": {"role": "assistant", "content": "The quick br"},
        "finish_reason": "stop",
    }
    assert answer["usage"]["completion_tokens"] == 3
    assert content_of(await server.stream(stop=["own fox"], max_tokens=500)) == "The quick br"


async def test_the_cap_says_length(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["a"] * 10)
    server = await start_server()

    assert (await server.chat(max_tokens=4))["choices"][0]["finish_reason"] == "length"


async def test_an_answer_that_the_loop_guard_ended_says_so(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["ha"] * 3, reason="loop")
    server = await start_server()
    answer = await server.chat()
    plain = await server.chat(content='@stand-in {"reason": "stop"}')

    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["telemetry"]["stopped_by"] == "loop_guard"
    assert "stopped_by" not in plain["telemetry"]


async def test_a_worker_that_dies_in_a_stream_gives_one_error_and_done(
    start_server: Start, make_model: MakeModel
) -> None:
    make_model(text=["a", "b", "c"], at={"token:2": "kill"})
    server = await start_server()
    events = await server.stream()

    assert events[-1] == "[DONE]"
    assert events[-2]["error"]["code"] == "engine_crashed"
    assert events[-2]["error"]["type"] == "server_error"
    assert sum("error" in event for event in events[:-1]) == 1
    make_model(text=["back"])
    assert (await server.chat(content='@stand-in {"at": {}}'))["choices"][0]["message"]["content"] == "back"


async def test_a_worker_that_dies_gives_a_500_without_stream(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["a", "b", "c"], at={"token:2": "segv"})
    server = await start_server()

    async with server.post(
        "/v1/chat/completions", {"model": "stand-in", "messages": [{"role": "user", "content": "x"}]}
    ) as r:
        assert r.status == 500
        assert (await r.json())["error"]["code"] == "engine_crashed"


async def test_a_full_window_is_a_400_before_the_stream(start_server: Start, make_model: MakeModel) -> None:
    make_model(reject={"code": "context_length_exceeded", "message": "prompt of 9 tokens, window of 8"})
    server = await start_server()
    body = {"model": "stand-in", "messages": [{"role": "user", "content": "x"}], "stream": True}

    async with server.post("/v1/chat/completions", body) as response:
        assert response.status == 400
        error = (await response.json())["error"]

    assert error["code"] == "context_length_exceeded"
    assert "9" in error["message"]
    assert "8" in error["message"]


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_client_that_leaves_stops_the_work(start_server: Start, make_model: MakeModel, is_stream: bool) -> None:
    make_model(text=["a"] * 2000, delay_s=0.005)
    server = await start_server()
    body = {
        "model": "stand-in",
        "messages": [{"role": "user", "content": "x"}],
        "stream": is_stream,
        "max_tokens": 2000,
    }
    leaving = asyncio.create_task(_post_and_read(server, body))
    host = server.services.host
    await until(lambda: host.status().state is HostState.BUSY)
    leaving.cancel()
    await until(lambda: host.status().state is HostState.READY)

    answer = await asyncio.wait_for(server.chat(content='@stand-in {"text": ["next"]}'), 2)
    assert answer["choices"][0]["message"]["content"] == "next"
    assert host.status().generation == 1


async def _post_and_read(server: Any, body: Any) -> None:
    async with server.post("/v1/chat/completions", body) as response:
        await response.read()


async def test_a_client_that_leaves_the_queue_is_forgotten(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["a"] * 2000, delay_s=0.005)
    server = await start_server()
    body = {"model": "stand-in", "messages": [{"role": "user", "content": "x"}], "max_tokens": 2000}
    running = asyncio.create_task(_post_and_read(server, body))
    host = server.services.host
    await until(lambda: host.status().state is HostState.BUSY)
    queued = asyncio.create_task(_post_and_read(server, body))
    await until(lambda: host.status().waiting == 1)
    queued.cancel()
    await until(lambda: host.status().waiting == 0)
    assert host.status().state is HostState.BUSY
    running.cancel()
    await until(lambda: host.status().state is HostState.READY)


async def test_pings_fill_a_long_silence(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["a"], prefill=30, prefill_s=0.01)
    server = await start_server(sse_ping_s=0.05)
    body = {"model": "stand-in", "messages": [{"role": "user", "content": "x"}], "stream": True}

    async with server.post("/v1/chat/completions", body) as response:
        text = await response.text()

    assert text.count(": ping\n\n") >= 2
    assert content_of(events_of(text)) == "a"


async def test_unknown_model_is_a_404_that_says_what_is_there(start_server: Start, make_model: MakeModel) -> None:
    make_model()
    server = await start_server()
    body = {"model": "nope", "messages": [{"role": "user", "content": "x"}]}

    async with server.post("/v1/chat/completions", body) as response:
        assert response.status == 404
        error = (await response.json())["error"]

    assert error["code"] == "model_not_found"
    assert "stand-in" in error["message"]


async def test_legacy_completion_gets_the_raw_prompt_and_keeps_tags(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["<think>", "x", "</think>", " y"])
    server = await start_server()

    async with server.post("/v1/completions", {"model": "stand-in", "prompt": "a b c"}) as response:
        answer = await response.json()

    assert answer["object"] == "text_completion"
    assert answer["choices"] == [{"index": 0, "text": "<think>x</think> y", "finish_reason": "stop"}]
    assert answer["usage"]["prompt_tokens"] == 3


async def test_several_prompts_are_several_choices(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["x"])
    server = await start_server()
    prompts = ["one", '@stand-in {"text": ["two", "!"]}']

    async with server.post("/v1/completions", {"model": "stand-in", "prompt": prompts}) as response:
        answer = await response.json()

    assert [choice["text"] for choice in answer["choices"]] == ["x", "two!"]
    assert answer["usage"]["completion_tokens"] == 3

    async with server.post("/v1/completions", {"model": "stand-in", "prompt": prompts, "stream": True}) as response:
        events = events_of(await response.text())

    assert [(e["choices"][0]["index"], e["choices"][0]["text"]) for e in events[:-1]] == [
        (0, "x"),
        (0, ""),
        (1, "two"),
        (1, "!"),
        (1, ""),
    ] or [(e["choices"][0]["index"], e["choices"][0]["text"]) for e in events[:-1] if e["choices"][0]["text"]] == [
        (0, "x"),
        (1, "two"),
        (1, "!"),
    ]


async def test_tools_are_buffered_and_equal_in_both_modes(start_server: Start, make_model: MakeModel) -> None:
    model = make_model(
        text=["Let me look. ", "<tool_call>", '{"name": "f", "argu', 'ments": {"x": 1}}', "</tool_call>"]
    )
    template = "{% for m in messages %}{{ m.content }}\n{% endfor %}{% for t in tools %}{{ t | tojson }}{% endfor %}<tool_call>"
    (model.path / "chat_template.jinja").write_text(template)
    server = await start_server()
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    whole = (await server.chat(tools=tools))["choices"][0]
    events = await server.stream(tools=tools)

    assert whole["finish_reason"] == "tool_calls"
    assert whole["message"]["content"] == "Let me look."
    call = whole["message"]["tool_calls"][0]
    assert call["function"] == {"name": "f", "arguments": json.dumps({"x": 1}, separators=(",", ":"))}
    deltas = [event["choices"][0]["delta"] for event in events[:-1]]
    (streamed,) = [delta["tool_calls"] for delta in deltas if "tool_calls" in delta]
    assert streamed[0]["index"] == 0
    assert streamed[0]["function"] == call["function"]
    assert content_of(events) == whole["message"]["content"]


async def test_health_tells_what_is_resident(start_server: Start, make_model: MakeModel) -> None:
    make_model()
    server = await start_server()

    async with server.get("/health") as response:
        before = await response.json()

    await server.chat()

    async with server.get("/v1/status/") as response:
        after = await response.json()

    assert (before["state"], before["active_model"], before["worker"]) == ("idle", None, None)
    assert (after["state"], after["active_model"], after["active_device"]) == ("ready", "stand-in", "cpu")
    assert after["worker"]["generation"] == 1


async def test_models_are_listed_and_found(start_server: Start, make_model: MakeModel) -> None:
    make_model("one")
    server = await start_server()
    make_model("two")

    async with server.get("/v1/models") as response:
        listed = (await response.json())["data"]

    async with server.get("/v1/models/TWO") as response:
        found = await response.json()

    assert {model["id"] for model in listed} == {"one", "two"}
    assert found in listed
    assert found["device"] == "CPU"


async def test_unload_is_idempotent_and_the_next_chat_works(start_server: Start, make_model: MakeModel) -> None:
    make_model()
    server = await start_server()
    await server.chat()

    async with server.post("/v1/unload") as response:
        assert await response.json() == {"unloaded": True, "model": "stand-in"}

    async with server.post("/v1/unload", {"any": "thing"}) as response:
        assert await response.json() == {"unloaded": False, "model": None}

    async with server.post("/v1/unload", "[]") as response:
        assert response.status == 400

    await server.chat()
