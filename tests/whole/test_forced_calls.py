"""Calls that have to be made, through the whole server with the real engine and random weights: in each family's own way of calling."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from prism.export.tiny_model import write_tiny_model
from tests.whole.conftest import Server, Start

pytestmark = pytest.mark.engine

# A template that tells of the tools, and by its marks of a family.
TEMPLATE = (
    "{{% for tool in tools or [] %}}{{{{ tool | tojson }}}}\n{{% endfor %}}{{% if false %}}{marks}{{% endif %}}"
    "{{% for message in messages %}}<|im_start|>{{{{ message.role }}}}\n{{{{ message.content }}}}<|im_end|>\n{{% endfor %}}"
    "<|im_start|>assistant\n"
)
MARKS = {
    "hermes": "<tool_call>",
    "phi4-mini": "<|tool_call|>",
    "mistral": "[TOOL_CALLS]",
    "llama3": "<|python_tag|>",
    "llama4": "<|python_start|>",
    "qwen3-coder": "<tool_call><function=x><parameter=y>",
    "deepseek": "<｜tool▁calls▁begin｜>",
    "deepseek-r1": "<｜tool▁calls▁begin｜>```json",
    "unknown": "",
}
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Köln", "東京", 'a "b"']},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
        "units": {"type": "array", "items": {"enum": ["C", "F"]}, "maxItems": 2},
    },
    "required": ["city", "days"],
}
TREE = {
    "$ref": "#/$defs/n",
    "$defs": {"n": {"type": "object", "properties": {"v": {"type": "boolean"}, "n": {"$ref": "#/$defs/n"}}}},
}
SCHEMAS: dict[str, Any] = {
    "weather": WEATHER,
    "weather_now": {"type": "object", "properties": {}},
    "tree": {"type": "object", "properties": {"root": TREE["$ref"] and {"$ref": "#/$defs/n"}}, "$defs": TREE["$defs"]},
}


def tool(name: str, parameters: Any = None) -> dict[str, Any]:
    function = {"name": name, "description": "d"} | ({} if parameters is None else {"parameters": parameters})
    return {"type": "function", "function": function}


TOOLS = [tool(name, schema) for name, schema in SCHEMAS.items()]


@pytest.fixture(params=MARKS)
async def server(request: pytest.FixtureRequest, start_server: Start, tmp_path: Path) -> Server:
    template = TEMPLATE.format(marks=MARKS[request.param])
    write_tiny_model(tmp_path / "models" / "tiny", context_length=4096, chat_template=template)
    return await start_server(None)


def assert_calls_fit(choice: Any, schemas: Any, *, most: int = 16) -> list[str]:
    calls = choice["message"].get("tool_calls")
    assert choice["finish_reason"] == "tool_calls", choice
    assert choice["message"]["content"] is None
    assert 1 <= len(calls) <= most

    for call in calls:
        arguments = json.loads(call["function"]["arguments"])
        jsonschema.validate(arguments, schemas[call["function"]["name"]] or {})

    return [call["function"]["name"] for call in calls]


async def test_every_answer_is_a_call_that_fits(server: Server) -> None:
    names = []

    for seed in range(8):
        fields: dict[str, Any] = {
            "temperature": 1,
            "seed": seed,
            "tools": TOOLS,
            "tool_choice": "required",
            "max_tokens": 1500,
        }
        choice = (await server.chat("tiny", **fields))["choices"][0]

        if choice["finish_reason"] != "length":
            names += assert_calls_fit(choice, SCHEMAS)

    assert len(names) >= 5


async def test_one_call_when_only_one_is_wanted(server: Server) -> None:
    tools = TOOLS[:2]

    for seed in range(4):
        fields: dict[str, Any] = {"temperature": 1, "seed": seed, "tools": tools, "max_tokens": 300}
        single = await server.chat("tiny", tool_choice="required", parallel_tool_calls=False, **fields)
        assert_calls_fit(single["choices"][0], SCHEMAS, most=1)
        named = {"type": "function", "function": {"name": "weather_now"}}
        chosen = await server.chat("tiny", tool_choice=named, **fields)
        assert assert_calls_fit(chosen["choices"][0], SCHEMAS) == ["weather_now"]


async def test_names_that_markup_cannot_hold_are_called_all_the_same(server: Server) -> None:
    names = ['say "hi"', "naïve name", "a.b/c", "<tool_call>"]
    tools = [tool(name, {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}}) for name in names]
    fields: dict[str, Any] = {"temperature": 1, "max_tokens": 300, "parallel_tool_calls": False}

    for seed, name in enumerate(names):
        choice = {"type": "function", "function": {"name": name}}
        answer = await server.chat("tiny", tools=tools, tool_choice=choice, seed=seed, **fields)
        assert assert_calls_fit(answer["choices"][0], dict.fromkeys(names)) == [name]
