"""Thinking over HTTP with the real engine: how it is counted and ordered, streamed and whole, and that none means none."""

from pathlib import Path
from typing import Any

import pytest

from prism.export.reciting_model import write_reciting_model
from prism.export.tiny_model import write_tiny_model
from tests.whole.conftest import Start, content_of

pytestmark = pytest.mark.engine

TURNS = (
    "{% for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}"
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}"
    "{{ '<|im_start|>assistant\\n' }}{% if false %}<tool_call></tool_call>{% endif %}"
)
THINKS = "{% if false %}<think></think>{% endif %}"
BY_ITSELF = TURNS + THINKS
OPENED = TURNS + "{{ '<think>\\n' }}" + THINKS
SWITCHED = (
    TURNS + "{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}"
)
LEVELS = TURNS + THINKS + "{% if reasoning_effort is defined and reasoning_effort == 'high' %}{% endif %}"
TOOL = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}
SCRIPT = [b"<think>", b"\nLet", b" me", b"\n", b"</think>", b"\n\n", b"Ye", b"s", b"."]
CALL = [b"<think>", b"Hm", b"</think>", b"<tool_call>", b'{"name": "clock", "arguments": {}}', b"</tool_call>"]
# Two bytes of the three of an ellipsis, then the last.
SPLIT = [b"<think>", b"Hm", b"\xe2\x80", b"\xa6", b"</think>", b"Yes"]


def shown(events: list[Any]) -> tuple[list[str], str, Any, Any]:
    """Return the kinds of the deltas after the first, runs as one; the thinking; the reason; the usage."""
    chunks = [event for event in events[:-1] if event["choices"]]
    kinds = [key for chunk in chunks[1:] for key in chunk["choices"][0]["delta"]]
    runs = [kind for number, kind in enumerate(kinds) if number == 0 or kinds[number - 1] != kind]
    thinking = "".join(chunk["choices"][0]["delta"].get("reasoning_content", "") for chunk in chunks)
    return runs, thinking, chunks[-1]["choices"][0]["finish_reason"], events[-2]["usage"]


@pytest.mark.parametrize(
    ("script", "template", "fields", "thinking", "content", "reason", "reasoning_tokens", "completion_tokens"),
    [
        pytest.param(SCRIPT, BY_ITSELF, {}, "Let me", "Yes.", "stop", 5, 10, id="to the end"),
        pytest.param(SCRIPT, BY_ITSELF, {"max_tokens": 3}, "Let me", "", "length", 3, 3, id="cut in the thinking"),
        pytest.param(SCRIPT, BY_ITSELF, {"max_tokens": 7}, "Let me", "Ye", "length", 5, 7, id="cut in the answer"),
        pytest.param(SCRIPT, BY_ITSELF, {"stop": "es"}, "Let me", "Y", "stop", 5, 8, id="stopped in the answer"),
        pytest.param(SCRIPT, BY_ITSELF, {"stop": "Let"}, "Let me", "Yes.", "stop", 5, 10, id="not in the thinking"),
        pytest.param(SCRIPT, BY_ITSELF, {"tools": [TOOL]}, "Let me", "Yes.", "stop", 5, 10, id="beside tools"),
        pytest.param(
            SCRIPT, BY_ITSELF, {"tools": [TOOL], "stop": "es"}, "Let me", "Y", "stop", 5, 8, id="tools and a stop"
        ),
        pytest.param(
            SCRIPT, BY_ITSELF, {"tools": [TOOL], "max_tokens": 3}, "Let me", "", "length", 3, 3, id="tools and a cut"
        ),
        pytest.param(CALL, BY_ITSELF, {"tools": [TOOL]}, "Hm", None, "tool_calls", 3, 7, id="before a call"),
        pytest.param(SCRIPT[1:], OPENED, {}, "Let me", "Yes.", "stop", 4, 9, id="opened by the prompt"),
        pytest.param(SCRIPT[1:], OPENED, {"max_tokens": 2}, "Let me", "", "length", 2, 2, id="opened and cut"),
        pytest.param(SPLIT, BY_ITSELF, {"max_tokens": 3}, "Hm\ufffd", "", "length", 3, 3, id="cut in a character"),
        pytest.param(SPLIT, BY_ITSELF, {}, "Hm…", "Yes", "stop", 5, 7, id="a character in two tokens"),
        pytest.param(SCRIPT[6:], BY_ITSELF, {}, "", "Yes.", "stop", 0, 4, id="no thinking"),
    ],
)  # fmt: skip
async def test_thinking_is_counted_alike_in_both_modes(
    start_server: Start,
    tmp_path: Path,
    script: list[bytes],
    template: str,
    fields: dict[str, Any],
    thinking: str,
    content: str | None,
    reason: str,
    reasoning_tokens: int,
    completion_tokens: int,
) -> None:
    write_reciting_model(tmp_path / "models" / "m", script, chat_template=template)
    server = await start_server(None)
    whole = await server.chat("m", **fields)
    events = await server.stream("m", stream_options={"include_usage": True}, **fields)
    runs, streamed, streamed_reason, usage = shown(events)
    message = whole["choices"][0]["message"]

    assert (message.get("reasoning_content", ""), message["content"]) == (thinking, content)
    assert (streamed, content_of(events)) == (thinking, content or "")
    assert whole["choices"][0]["finish_reason"] == streamed_reason == reason
    assert usage["completion_tokens"] == whole["usage"]["completion_tokens"] == completion_tokens
    assert usage["completion_tokens_details"] == whole["usage"]["completion_tokens_details"]
    assert usage["completion_tokens_details"] == {"reasoning_tokens": reasoning_tokens}
    expected = ["reasoning_content"] * bool(thinking) + ["content"] * bool(content) + ["tool_calls"] * (content is None)
    assert runs == expected


async def test_none_begins_with_the_answer_for_every_kind_of_template(start_server: Start, tmp_path: Path) -> None:
    """A model of random weights says anything, so that whatever comes first is the answer only if the prompt made it so."""
    templates = {"by-itself": BY_ITSELF, "opened": OPENED, "switched": SWITCHED, "levels": LEVELS, "a-reasoner": TURNS}

    for name, template in templates.items():
        write_tiny_model(tmp_path / "models" / name, chat_template=template)

    server = await start_server(None)

    for name in templates:
        for control in ({"reasoning_effort": "none"}, {"reasoning_effort": "max", "reasoning": {"enabled": False}}):
            options: dict[str, Any] = {"temperature": 1, "seed": 4, "max_tokens": 12, **control}
            events = await server.stream(name, stream_options={"include_usage": True}, **options)
            runs, thinking, _, usage = shown(events)
            assert (runs, thinking) == (["content"], "")
            assert usage["completion_tokens_details"] == {"reasoning_tokens": 0}

    events = await server.stream("opened", stream_options={"include_usage": True}, temperature=1, seed=4, max_tokens=12)
    assert shown(events)[0] == ["reasoning_content"]
