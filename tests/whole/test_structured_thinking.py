"""JSON and calls after thinking, with the real engine: the constraint begins behind the tags, and the counts are true."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from prism.export.reciting_model import write_reciting_model
from prism.export.tiny_model import write_tiny_model
from tests.whole.conftest import Server, Start, content_of

pytestmark = pytest.mark.engine

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["n"]}
WANTED: dict[str, Any] = {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}}
MESSAGES = (
    "{% for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
)
# Says nothing about thinking; a line break at its very end would be cut off.
SILENT = MESSAGES + "{# #}"
# The model opens its thinking by itself; the prompt opens it; a switch keeps the model from it.
BY_ITSELF = MESSAGES + "{# <think> </think> #}{% if false %}<think></think><tool_call>{% endif %}"
OPENED = MESSAGES + "<think>\n{% if false %}</think>{% endif %}"
SWITCHED = MESSAGES + "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
TOOLS = [{"type": "function", "function": {"name": "count", "parameters": SCHEMA}}]


async def reciting(start_server: Start, folder: Path, script: list[bytes], template: str) -> Server:
    write_reciting_model(folder / "models" / "m", script, chat_template=template)
    return await start_server(None)


def fits(choice: Any) -> None:
    assert choice["finish_reason"] == "stop", choice
    jsonschema.validate(json.loads(choice["message"]["content"]), SCHEMA)


async def test_thinking_of_its_own_comes_first_and_is_free(start_server: Start, tmp_path: Path) -> None:
    script = [b"<think>", b"\nLet", b" me", b"\n", b"</think>", b"\n\n", b'{"n": ', b"7", b"}"]
    server = await reciting(start_server, tmp_path, script, BY_ITSELF)
    answer = await server.chat("m", **WANTED)
    choice = answer["choices"][0]

    fits(choice)
    assert choice["message"] == {"role": "assistant", "content": '{"n": 7}', "reasoning_content": "Let me"}
    assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == 5
    assert content_of(await server.stream("m", **WANTED)) == '{"n": 7}'


async def test_a_model_that_is_only_named_after_its_thinking_thinks_first(start_server: Start, tmp_path: Path) -> None:
    script = [b"<think>", b"\nLet", b" me", b"\n", b"</think>", b"\n\n", b'{"n": ', b"7", b"}"]
    write_reciting_model(tmp_path / "models" / "phi-mini-reasoning", script, chat_template=SILENT)
    server = await start_server(None)
    answer = await server.chat("phi-mini-reasoning", **WANTED)

    fits(answer["choices"][0])
    assert answer["choices"][0]["message"]["reasoning_content"] == "Let me"


async def test_a_model_that_wants_to_say_something_else_is_held_to_the_schema(
    start_server: Start, tmp_path: Path
) -> None:
    server = await reciting(start_server, tmp_path, [b"Sure", b"! ", b"Here"], BY_ITSELF)
    choice = (await server.chat("m", temperature=1, **WANTED))["choices"][0]

    fits(choice)


async def test_thinking_that_the_prompt_has_opened_goes_on_until_it_is_closed(
    start_server: Start, tmp_path: Path
) -> None:
    script = [b"Hm", b"m", b"</think>", b"\n\n", b'{"n": ', b"7", b"}"]
    server = await reciting(start_server, tmp_path, script, OPENED)
    answer = await server.chat("m", **WANTED)

    fits(answer["choices"][0])
    assert answer["choices"][0]["message"]["reasoning_content"] == "Hmm"
    assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == 3


async def test_without_thinking_the_first_token_is_of_the_answer(start_server: Start, tmp_path: Path) -> None:
    for name, template in {"by-itself": BY_ITSELF, "opened": OPENED, "switched": SWITCHED}.items():
        write_tiny_model(tmp_path / "models" / name, chat_template=template)

    server = await start_server(None)

    for name in ("by-itself", "opened", "switched"):
        for control in ({"reasoning_effort": "none"}, {"reasoning": {"enabled": False}}):
            fields: dict[str, Any] = {"temperature": 1, "seed": 4, **control, **WANTED}
            answer = await server.chat(name, **fields)
            fits(answer["choices"][0])
            assert "reasoning_content" not in answer["choices"][0]["message"]
            assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0


async def test_thinking_that_uses_up_the_tokens_is_a_cut_answer(start_server: Start, tmp_path: Path) -> None:
    write_tiny_model(tmp_path / "models" / "m", chat_template=OPENED)
    server = await start_server(None)
    answer = await server.chat("m", temperature=1, seed=1, max_tokens=40, **WANTED)

    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["choices"][0]["message"]["content"] == ""
    assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == 40


async def test_a_forced_call_comes_after_the_thinking(start_server: Start, tmp_path: Path) -> None:
    call = [b"<tool_call>", b"\n", b'{"name": "count", "arguments": {"n": ', b"3", b"}}", b"\n", b"</tool_call>"]
    server = await reciting(start_server, tmp_path, [b"<think>", b"Hm", b"</think>", b"\n\n", *call], BY_ITSELF)
    choice = (await server.chat("m", tools=TOOLS, tool_choice="required"))["choices"][0]

    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["reasoning_content"] == "Hm"
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "count", "arguments": '{"n":3}'}


async def test_beside_tools_that_may_be_called_the_answer_is_a_call_or_the_json(
    start_server: Start, tmp_path: Path
) -> None:
    write_tiny_model(tmp_path / "models" / "m", chat_template=BY_ITSELF)
    server = await start_server(None)
    seen = set()

    for seed in range(24):
        fields: dict[str, Any] = {
            "temperature": 1.5,
            "top_k": 300,
            "top_p": 1,
            "seed": seed,
            "reasoning_effort": "none",
            "max_tokens": 500,
        }
        choice = (await server.chat("m", tools=TOOLS, **fields, **WANTED))["choices"][0]
        seen.add(choice["finish_reason"])

        if choice["finish_reason"] == "tool_calls":
            jsonschema.validate(json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]), SCHEMA)
        else:
            fits(choice)

    assert seen == {"stop", "tool_calls"}
