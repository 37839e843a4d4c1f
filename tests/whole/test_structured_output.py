"""Answers under a schema, through the whole server with the real engine: what ends by itself always fits."""

import asyncio
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from prism.export.tiny_model import write_tiny_model
from tests.fuzz.schema_campaign import run_schemas
from tests.whole.conftest import Server, Start, content_of

pytestmark = pytest.mark.engine

PERSON = {
    "type": "object",
    "properties": {"имя": {"enum": ["日本", "naïve 😀"]}, "age": {"type": "integer", "minimum": 0, "maximum": 130}},
    "required": ["имя", "age"],
}


@pytest.fixture
async def server(start_server: Start, tmp_path: Path) -> Server:
    write_tiny_model(tmp_path / "models" / "tiny", context_length=2048)
    return await start_server(None)


def wanted(schema: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}


async def refusal(server: Server, **fields: Any) -> Any:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], **fields}

    async with server.post("/v1/chat/completions", body) as response:
        answer = await response.json()
        assert response.status == 400, answer
        return answer["error"]


async def test_a_random_model_answers_random_schemas_with_what_fits(server: Server) -> None:
    tally = await asyncio.to_thread(run_schemas, server.base_url, "tiny", 0, 60, max_tokens=200)

    assert tally.complaints == []
    assert tally.ends["fits"] >= 30


async def test_a_streamed_answer_is_the_whole_answer_and_fits(server: Server) -> None:
    fields = {"temperature": 1, "seed": 3, **wanted(PERSON)}
    answer = await server.chat("tiny", **fields)
    events = await server.stream("tiny", **fields)

    assert answer["choices"][0]["finish_reason"] == "stop"
    assert content_of(events) == answer["choices"][0]["message"]["content"]
    jsonschema.validate(json.loads(content_of(events)), PERSON)


@pytest.mark.parametrize("field", [{"top_k": 1}, {"top_p": 0.01}, {"repetition_penalty": 3.0}, {"temperature": 0}])
async def test_no_way_of_sampling_leads_out_of_the_schema(server: Server, field: dict[str, Any]) -> None:
    answer = await server.chat("tiny", **({"temperature": 2, "seed": 5} | field), **wanted(PERSON))

    assert answer["choices"][0]["finish_reason"] == "stop"
    jsonschema.validate(json.loads(answer["choices"][0]["message"]["content"]), PERSON)


async def test_an_answer_that_is_cut_says_so(server: Server) -> None:
    answer = await server.chat("tiny", max_tokens=5, **wanted(PERSON))

    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["choices"][0]["message"]["content"].startswith("{")


async def test_json_mode_gives_an_object(server: Server) -> None:
    kinds = set()

    for seed in range(12):
        fields: dict[str, Any] = {"temperature": 1, "seed": seed, "max_tokens": 300}
        answer = await server.chat("tiny", response_format={"type": "json_object"}, **fields)
        choice = answer["choices"][0]
        kinds.add(choice["finish_reason"])
        assert choice["message"]["content"].startswith("{")

        if choice["finish_reason"] == "stop":
            assert isinstance(json.loads(choice["message"]["content"]), dict)

    assert kinds <= {"stop", "length"}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string", "not": {}}, "'not'"),
        ({"properties": {"a": {"type": "array", "uniqueItems": True}}}, "#/properties/a has the keyword 'uniqueItems'"),
        ({"type": "string", "pattern": "^(?=x)"}, "look-ahead"),
        ({"type": "string", "pattern": "(["}, "does not end"),
        ({"type": "string", "pattern": "a**b{"}, "regex"),
        ({"type": "thing"}, "'thing'"),
        ({"$ref": "http://example.com/a.json"}, "only references inside"),
        ({"$ref": "#/nowhere"}, "#/nowhere"),
        ({"$ref": "#"}, "itself"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "no number"),
        ({"type": "object", "required": ["a"], "additionalProperties": False}, "'a'"),
        ({"oneOf": [{"type": "integer"}, {"minimum": 3}]}, "choices 0 and 1"),
        ({"type": "string", "format": "regex"}, "'regex'"),
    ],
)
async def test_what_cannot_be_enforced_is_refused_with_its_reason(
    server: Server, schema: dict[str, Any], words: str
) -> None:
    error = await refusal(server, **wanted(schema))

    assert error["param"] == "response_format.json_schema.schema"
    assert words in error["message"]
    assert "\n" not in error["message"]


async def test_the_worker_lives_through_what_its_compiler_refuses(server: Server) -> None:
    await server.chat("tiny", max_tokens=1)
    before = server.services.host.status()

    for _ in range(3):
        await refusal(server, **wanted({"type": "string", "pattern": "a**b{"}))

    await server.chat("tiny", max_tokens=1)
    after = server.services.host.status()
    assert (after.worker_pid, after.restarts) == (before.worker_pid, 0)
