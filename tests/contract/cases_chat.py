"""Chats in full: messages of every kind, texts that no model can read, formats of answers, choices of tools, and how much to think."""

import json
from collections.abc import Iterator
from typing import Any

from tests.contract.client import MODEL, OTHER_TOOL, TOOL, Case, Client, refused, refused_body, taken

USER = {"role": "user", "content": "hello"}
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
# Where a text may stand in a body. NUL becomes what is to be refused.
NUL = "a\0b"
TEXTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("model", {"model": NUL}),
    ("messages[0].content", {"messages": [USER | {"content": NUL}]}),
    ("messages[0].content[1]", {"messages": [USER | {"content": ["fine", NUL]}]}),
    ("messages[0].content[0].text", {"messages": [USER | {"content": [{"type": "text", "text": NUL}]}]}),
    ("messages[0].name", {"messages": [USER | {"name": NUL}]}),
    ("messages[1].reasoning_content", {"messages": [USER, {"role": "assistant", "reasoning_content": NUL}]}),
    ("messages[0].tool_call_id", {"messages": [{"role": "tool", "content": "", "tool_call_id": NUL}]}),
    (
        "messages[0].tool_calls[0].function.arguments",
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": NUL}}]}]},
    ),
    ("tools[0].function.description", {"tools": [{"type": "function", "function": {"name": "f", "description": NUL}}]}),
    ("stop[0]", {"stop": [NUL]}),
    ("conversation_id", {"conversation_id": NUL}),
    ("prompt_cache_key", {"prompt_cache_key": NUL}),
    ("user", {"user": NUL}),
)


def _text_cases() -> Iterator[Case]:
    for field, fields in TEXTS:
        body = json.dumps({"model": MODEL, "messages": [USER]} | fields)
        yield Case("strict.text", f"no NUL in {field}", refused_body(body, field))
        yield Case(
            "strict.text", f"no half of a pair in {field}", refused_body(body.replace(r"\u0000", r"\ud800"), field)
        )


def _prompt_of(client: Client, *messages: object, **fields: Any) -> str:
    prompt = client.told(messages=list(messages), **fields)["prompt"]
    assert isinstance(prompt, str)
    return prompt


def check_rows_of_one_role(client: Client) -> None:
    turns = [USER, USER | {"content": "again"}, {"role": "assistant", "content": "x"}, {"role": "assistant"}, USER]
    prompt = _prompt_of(client, *turns)
    assert "user\nhello<|im_end|>\n<|im_start|>user\nagain<|im_end|>\n<|im_start|>assistant\nx<|im_end|>" in prompt


def check_empty_lists(client: Client) -> None:
    assert "user\n<|im_end|>" in _prompt_of(client, {"role": "user", "content": []}, USER)
    assert "tool_call" not in _prompt_of(client, USER, {"role": "assistant", "content": "x", "tool_calls": []}, USER)


def check_other_parts(client: Client) -> None:
    """Each kind of part of OpenAI's API, and one that is made up."""
    parts = (
        {"type": "refusal", "refusal": "I must not."},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "made_up"},
    )

    for role in ("user", "assistant"):
        messages = [{"role": role, "content": [{"type": "text", "text": "kept"}, *parts]}, USER]
        reply = client.ask(messages=messages)
        assert (reply.status, reply.headers["x-prism-dropped-parts"]) == (200, str(len(parts)))
        assert f"{role}\nkept<|im_end|>" in _prompt_of(client, *messages)


def check_results(client: Client) -> None:
    calls = [
        {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for number, name in enumerate(("weather", "clock"))
    ]
    results: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": "c1", "content": "noon"},
        {"role": "tool", "tool_call_id": "c0", "name": "weather", "content": [{"type": "text", "text": "rain"}]},
        {"role": "tool", "tool_call_id": "c9", "content": None},
        {"role": "tool", "content": "of nothing"},
    ]
    prompt = _prompt_of(client, USER, {"role": "assistant", "content": None, "tool_calls": calls}, *results)
    assert [text for text in ("noon", "rain", "of nothing") if f"tool\n{text}<|im_end|>" in prompt] == [
        "noon",
        "rain",
        "of nothing",
    ]


def check_efforts(client: Client) -> None:
    """This template has no control: all is taken, and nothing changes."""
    plain = client.told()

    for effort in EFFORTS:
        assert client.told(reasoning_effort=effort) == plain
        assert client.told(reasoning={"effort": effort, "max_tokens": 5, "exclude": True}) == plain

    assert client.told(reasoning_effort=None, reasoning=None) == plain
    assert client.told(reasoning={"enabled": True}) == plain


def check_engine_without_constraints(client: Client) -> None:
    script = {"reject": {"code": "guidance_unsupported", "message": "its tokenizer has no JSON form"}}
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    wanted: tuple[tuple[str, dict[str, Any]], ...] = (
        ("response_format", {"response_format": {"type": "json_object"}}),
        ("response_format.json_schema.schema", {"response_format": schema}),
        ("tools", {"tools": [TOOL], "tool_choice": "required"}),
    )

    for field, fields in wanted:
        for stream in (False, True):
            reply = client.ask(script=script, stream=stream, **fields)
            assert (reply.status, reply.error["code"], reply.error["param"]) == (400, "unsupported_parameter", field)
            assert "its tokenizer has no JSON form" in reply.error["message"]


def check_compiler_refuses(client: Client) -> None:
    script = {"reject": {"code": "guidance_refused", "message": "too many states"}}

    for stream in (False, True):
        reply = client.ask(script=script, stream=stream, response_format={"type": "json_object"})
        assert (reply.status, reply.error["code"], reply.error["param"]) == (400, None, "response_format")
        assert "too many states" in reply.error["message"]


def check_call_reasons(client: Client) -> None:
    """The reason of a call is tool_calls in both modes, however it came about, and of a cut call length."""
    named = {"type": "function", "function": {"name": "weather"}}

    for choice in ("auto", "required", named):
        fields: dict[str, Any] = {"tools": [TOOL, OTHER_TOOL], "tool_choice": choice}
        assert client.choice({"text": [CALL]}, **fields)["finish_reason"] == "tool_calls"
        events = client.events(script={"text": [CALL]}, **fields)
        assert events[-2]["choices"][0]["finish_reason"] == "tool_calls"

    cut = client.choice({"text": list(CALL)}, tools=[TOOL], tool_choice="required", max_tokens=30)
    assert cut["finish_reason"] == "length"


def check_no_call_is_made_without_tools(client: Client) -> None:
    for fields in ({}, {"tools": [TOOL], "tool_choice": "none"}):
        choice = client.choice({"text": [CALL]}, **fields)
        assert (choice["message"]["content"], choice["finish_reason"]) == (CALL, "stop")


def _format(**format_fields: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA} | format_fields}}


BAD_FORMATS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("response_format", {"response_format": "json_object"}),
    ("response_format", {"response_format": ["json_object"]}),
    ("response_format.type", {"response_format": {}}),
    ("response_format.type", {"response_format": {"type": None}}),
    ("response_format.type", {"response_format": {"type": "JSON_OBJECT"}}),
    ("response_format.json_schema", {"response_format": {"type": "json_schema", "json_schema": SCHEMA["type"]}}),
    ("response_format.json_schema.schema", {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}}),
    ("response_format.json_schema.schema", _format(schema=None)),
    ("response_format.json_schema.schema", _format(schema=[])),
    ("response_format.json_schema.schema", _format(schema="{}")),
    ("response_format.json_schema.schema", _format(schema={"type": "strin"})),
    ("response_format.json_schema.schema", _format(schema={"$ref": "#/$defs/none"})),
    ("response_format.json_schema.schema", _format(schema={"type": "string", "pattern": "(?=x)"})),
    ("response_format.json_schema.name", _format(name=5)),
    ("response_format.json_schema.strict", _format(strict="true")),
)
BAD_TOOLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tools[0]", {"tools": ["weather"]}),
    ("tools[0].type", {"tools": [{"function": {"name": "f"}}]}),
    ("tools[0].type", {"tools": [{"type": "custom", "function": {"name": "f"}}]}),
    ("tools[0].function", {"tools": [{"type": "function"}]}),
    ("tools[0].function.name", {"tools": [{"type": "function", "function": {"name": ""}}]}),
    ("tools[0].function.parameters", {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}),
    ("tools[1].function.name", {"tools": [TOOL, TOOL]}),
    ("tool_choice", {"tool_choice": "required"}),
    ("tool_choice", {"tools": [], "tool_choice": {"type": "function", "function": {"name": "weather"}}}),
    ("parallel_tool_calls", {"parallel_tool_calls": "false"}),
)
BAD_REASONING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("reasoning_effort", {"reasoning_effort": ""}),
    ("reasoning_effort", {"reasoning_effort": "NONE"}),
    ("reasoning_effort", {"reasoning_effort": 3}),
    ("reasoning_effort", {"reasoning_effort": True}),
    ("reasoning", {"reasoning": "high"}),
    ("reasoning", {"reasoning": True}),
    ("reasoning.enabled", {"reasoning": {"enabled": "false"}}),
    ("reasoning.effort", {"reasoning": {"enabled": False, "effort": "huge"}}),
)
BAD_MESSAGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("messages[0].content", {"messages": [USER | {"content": 5}]}),
    ("messages[0].content", {"messages": [USER | {"content": {"type": "text", "text": "x"}}]}),
    ("messages[0].content[0]", {"messages": [USER | {"content": [5]}]}),
    ("messages[0].content[0].type", {"messages": [USER | {"content": [{"text": "x"}]}]}),
    ("messages[0].content[0].text", {"messages": [USER | {"content": [{"type": "text"}]}]}),
    ("messages[0].content[0].image_url", {"messages": [USER | {"content": [{"type": "image_url"}]}]}),
    ("messages[1]", {"messages": [USER, None]}),
    ("messages[0].tool_calls", {"messages": [{"role": "assistant", "tool_calls": {}}]}),
    ("messages[0].tool_calls[0].function", {"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]}),
    (
        "messages[0].tool_calls[0].function.arguments",
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}]},
    ),
    ("messages[0].tool_call_id", {"messages": [{"role": "tool", "tool_call_id": 5, "content": "x"}]}),
    ("messages[0].role", {"messages": [{"role": "function", "name": "f", "content": "x"}]}),
)

CASES = (
    *_text_cases(),
    Case("strict.content", "several messages of one role in a row", check_rows_of_one_role),
    Case("strict.content", "empty lists of parts and of calls", check_empty_lists),
    Case("contract.dropped-parts", "all kinds of parts but text are dropped and counted", check_other_parts),
    Case("strict.results", "with and without a name, an id, a text; in any order", check_results),
    Case("contract.reasoning", "a model without control ignores every level", check_efforts),
    Case("codes.unsupported", "what this engine cannot keep to", check_engine_without_constraints),
    Case("contract.response_format", "the compiler's reason", check_compiler_refuses),
    Case("contract.must-call", "a call says so, a cut one too", check_call_reasons),
    Case("choice.none", "what looks like a call is text", check_no_call_is_made_without_tools),
    Case("contract.response_format", "text asks for nothing", taken(response_format={"type": "text"})),
    Case("contract.response_format", "null asks for nothing", taken(response_format=None)),
    *(
        Case(row, f"{field} in {json.dumps(fields)[:60]}", refused(400, None, field, **fields))
        for row, bad in (
            ("contract.response_format", BAD_FORMATS),
            ("contract.must-call", BAD_TOOLS),
            ("contract.reasoning", BAD_REASONING),
            ("strict.types", BAD_MESSAGES),
        )
        for field, fields in bad
    ),
)  # fmt: skip
