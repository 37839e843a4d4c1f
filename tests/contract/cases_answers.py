"""Responses, tool calling and streams of rest-api.txt, and contract.md section 4 about streams."""

import json
import time
from typing import Any

from tests.contract.client import CHAT, COMPLETIONS, OTHER_TOOL, TOOL, Case, Client, refused

CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
THINKING = {"text": ["<think>", "\nhm", "m\n", "</think>", "\n\n", "Yes", "."]}
USAGE = {"stream_options": {"include_usage": True}}


def check_shape(client: Client) -> None:
    answer = client.answer(script={"text": ["Paris"]}, model="STAND-IN")
    assert set(answer) == {"id", "object", "created", "model", "choices", "usage", "telemetry"}
    assert answer["object"] == "chat.completion"
    assert answer["id"].startswith("chatcmpl-")
    assert abs(answer["created"] - time.time()) < 60
    assert answer["model"] == "STAND-IN"
    message = {"role": "assistant", "content": "Paris"}
    assert answer["choices"] == [{"index": 0, "message": message, "finish_reason": "stop"}]


def check_text_shape(client: Client) -> None:
    answer = client.answer(COMPLETIONS, {"text": ["<think>x</think>"]})
    assert set(answer) == {"id", "object", "created", "model", "choices", "usage", "telemetry"}
    assert answer["object"] == "text_completion"
    assert answer["choices"] == [{"index": 0, "text": "<think>x</think>", "finish_reason": "stop"}]


def check_length(client: Client) -> None:
    for path in (CHAT, COMPLETIONS):
        answer = client.answer(path, {"text": ["a"] * 9}, max_tokens=4)
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["usage"]["completion_tokens"] == 4


def check_loop(client: Client) -> None:
    assert client.choice({"text": ["a"] * 9, "reason": "loop"})["finish_reason"] == "length"


def check_usage(client: Client) -> None:
    usage = client.answer(script={"text": ["a", "b", "c"]})["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (7, 3, 10)


def check_reasoning(client: Client) -> None:
    message = client.choice(THINKING)["message"]
    assert message == {"role": "assistant", "content": "Yes.", "reasoning_content": "hmm"}
    deltas = _deltas(client.events(script=THINKING))
    keys = [key for delta in deltas for key in delta if key != "role"]
    assert keys == ["content", *["reasoning_content"] * keys.count("reasoning_content"), *["content"] * 2]
    assert _joined(deltas, "reasoning_content") == "hmm"
    assert _joined(deltas, "content") == "Yes."


def check_reasoning_tokens(client: Client) -> None:
    usage = client.answer(script=THINKING)["usage"]
    # Both tags and the two pieces between them.
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 4}
    assert usage["completion_tokens"] == 7


def check_telemetry(client: Client) -> None:
    assert client.answer()["telemetry"] == {"ttft_sec": 0.25, "decode_tok_per_sec": 50.0, "device": "cpu"}


def check_stream(client: Client) -> None:
    events = client.events(script={"text": ["Hel", "lo"]})
    assert events[0]["choices"] == [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    assert _joined(_deltas(events), "content") == "Hello"
    assert events[-2]["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert all(event["object"] == "chat.completion.chunk" for event in events[:-1])
    assert [event["choices"][0]["finish_reason"] for event in events[:-2]] == [None] * (len(events) - 2)
    assert all("usage" not in event and "telemetry" not in event for event in events[:-1])


def check_text_stream(client: Client) -> None:
    events = client.events(COMPLETIONS, {"text": ["a", "b"]})
    assert all(event["object"] == "text_completion" for event in events[:-1])
    assert "".join(event["choices"][0]["text"] for event in events[:-1]) == "ab"
    assert [event["choices"][0]["finish_reason"] for event in events[:-1]][-1] == "stop"


def check_ids(client: Client) -> None:
    for path in (CHAT, COMPLETIONS):
        events = client.events(path, model="Stand-In", **USAGE)[:-1]
        (one,) = {(event["id"], event["created"], event["model"]) for event in events}
        assert one[2] == "Stand-In"


def check_usage_chunk(client: Client) -> None:
    for path in (CHAT, COMPLETIONS):
        script = {"text": ["a", "b"]}
        whole = client.answer(path, script)
        events = client.events(path, script, **USAGE)
        assert events[-2]["choices"] == []
        assert events[-2]["usage"] == whole["usage"]
        assert events[-2]["telemetry"] == whole["telemetry"]
        assert events[-3]["choices"][0]["finish_reason"] == "stop"
        assert all(event["usage"] is None for event in events[:-2])
        # Without a stream the option means nothing.
        assert client.ask(path, **USAGE).status == 200


def check_stream_headers(client: Client) -> None:
    for path in (CHAT, COMPLETIONS):
        headers = client.ask(path, stream=True).headers
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert headers["cache-control"] == "no-cache"
        assert headers["x-accel-buffering"] == "no"
        assert headers["x-request-id"].startswith("req-")
        assert "content-encoding" not in headers


def check_tool_call(client: Client) -> None:
    choice = client.choice({"text": ["Let me look. ", CALL]}, tools=[TOOL])
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "Let me look."
    (call,) = choice["message"]["tool_calls"]
    assert set(call) == {"id", "type", "function"}
    assert call["type"] == "function"
    assert call["function"]["name"] == "weather"
    assert json.loads(call["function"]["arguments"]) == {"city": "Oslo"}
    assert client.choice({"text": [CALL]}, tools=[TOOL])["message"]["content"] is None


def check_tool_call_after_thinking(client: Client) -> None:
    script = {"text": ["<think>", "which?", "</think>", CALL]}
    message = client.choice(script, tools=[TOOL])["message"]
    assert message["reasoning_content"] == "which?"
    assert message["content"] is None
    deltas = _deltas(client.events(script=script, tools=[TOOL]))
    assert _joined(deltas, "reasoning_content") == "which?"


def check_tool_result(client: Client) -> None:
    call = client.choice({"text": [CALL]}, tools=[TOOL])["message"]
    messages = [
        {"role": "user", "content": "Weather?"},
        call,
        {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "12 degrees"},
    ]
    prompt = client.told(messages=messages, tools=[TOOL])["prompt"]
    assert '"arguments": {"city": "Oslo"}' in prompt
    assert "<|im_start|>tool\n12 degrees<|im_end|>" in prompt


def check_tool_stream(client: Client) -> None:
    script = {"text": ["<think>", "hm", "</think>", "Let me ", "look. ", CALL, CALL]}
    whole = client.choice(script, tools=[TOOL])["message"]
    events = client.events(script=script, tools=[TOOL])
    deltas = _deltas(events)
    kinds = [sorted(delta) for delta in deltas]
    assert kinds == [["content", "role"], ["reasoning_content"], ["content"], ["tool_calls"], []]
    assert deltas[2]["content"] == whole["content"]
    assert [call["index"] for call in deltas[3]["tool_calls"]] == [0, 1]
    assert [call["function"] for call in deltas[3]["tool_calls"]] == [c["function"] for c in whole["tool_calls"]]
    assert len({call["id"] for call in deltas[3]["tool_calls"]}) == 2
    assert events[-2]["choices"][0]["finish_reason"] == "tool_calls"


def check_json_answer_is_no_call(client: Client) -> None:
    text = '{"name": "Alice", "age": 30}'
    choice = client.choice({"text": [text]}, tools=[TOOL])
    assert (choice["message"]["content"], choice["finish_reason"]) == (text, "stop")


def check_choice_none(client: Client) -> None:
    with_none = client.told(tools=[TOOL], tool_choice="none")
    assert with_none == client.told()
    assert client.ask(model="twin-one", tools=[TOOL], tool_choice="required").status == 400


def _tools_in_prompt(client: Client, **fields: Any) -> list[str]:
    # With tools an answer is read for calls; the echo holds none.
    prompt = client.told(tools=[TOOL, OTHER_TOOL], **fields)["prompt"]
    return [name for name in ("weather", "clock") if name in prompt]


def check_choice_auto(client: Client) -> None:
    assert _tools_in_prompt(client) == _tools_in_prompt(client, tool_choice="auto") == ["weather", "clock"]


def check_choice_required(client: Client) -> None:
    assert _tools_in_prompt(client, tool_choice="required") == ["weather", "clock"]


def check_choice_named(client: Client) -> None:
    choice = {"type": "function", "function": {"name": "clock"}}
    assert _tools_in_prompt(client, tool_choice=choice) == ["clock"]


def _deltas(events: list[Any]) -> list[Any]:
    return [event["choices"][0]["delta"] for event in events[:-1]]


def _joined(deltas: list[Any], key: str) -> str:
    return "".join(delta.get(key, "") for delta in deltas)


CASES = (
    Case("responses.shape", "the shape of OpenAI's, with our telemetry", check_shape),
    Case("responses.shape", "text completions have theirs", check_text_shape),
    Case("responses.stop", "an answer that ends says stop", check_shape),
    Case("responses.length", "one that is cut at the cap says length", check_length),
    Case("responses.loop", "and so does one that repeats itself", check_loop),
    Case("responses.usage", "counts of the model's tokenizer", check_usage),
    Case("responses.reasoning", "thinking is told apart, in both modes", check_reasoning),
    Case("responses.telemetry", "speed and device of this answer", check_telemetry),
    Case("stream.order", "role, deltas, the reason, the end; no counts unless asked", check_stream),
    Case("stream.order", "text completions stream too", check_text_stream),
    Case("stream.usage", "one more event with counts and telemetry, after the reason", check_usage_chunk),
    Case("stream.reasoning", "thinking comes in its own deltas before the content", check_reasoning),
    Case("contract.first-delta", "has the role and an empty content", check_stream),
    Case("contract.ids", "one id, one time, and the name that the client sent", check_ids),
    Case("contract.reasoning-tokens", "are told apart in usage", check_reasoning_tokens),
    Case("contract.stream-headers", "say what it is, and that nobody should keep it", check_stream_headers),
    Case("tools.reply", "calls, the text before them, and the reason", check_tool_call),
    Case("tools.reasoning", "thinking before a call is no content", check_tool_call_after_thinking),
    Case("tools.result", "goes back to the model with the call that asked for it", check_tool_result),
    Case("tools.stream", "is held back and comes as few chunks, equal to the whole answer", check_tool_stream),
    Case("tools.shape", "an answer in JSON is not taken for a call", check_json_answer_is_no_call),
    Case(
        "tools.not-supported",
        "a template without a place for tools",
        refused(400, "tools_not_supported", "tools", model="plain", tools=[TOOL]),
    ),
    Case(
        "tools.not-supported",
        "a model without a template",
        refused(400, "tools_not_supported", "tools", model="twin-one", tools=[TOOL]),
    ),
    Case("choice.none", "the model never hears of the tools", check_choice_none),
    Case("choice.auto", "all of them, also when nothing is said", check_choice_auto),
    Case("choice.required", "all of them", check_choice_required),
    Case("choice.named", "that one only", check_choice_named),
    Case(
        "choice.named",
        "one that is not offered",
        refused(
            400,
            None,
            "tool_choice",
            says="weather",
            tools=[TOOL],
            tool_choice={"type": "function", "function": {"name": "nope"}},
        ),
    ),
    *(
        Case(
            "choice.other", "no other shape is taken", refused(400, None, "tool_choice", tools=[TOOL], tool_choice=odd)
        )
        for odd in (42, "sometimes", ["auto"], {"type": "function"}, {"function": {"name": "weather"}})
    ),
)
