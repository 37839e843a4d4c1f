"""Several requests at once through the whole server, on the real engine with the tiny paged model: each gets what it gets alone."""

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema
import pytest

from prism.export.genai_config import DynamicBatching
from prism.export.tiny_model import write_tiny_model
from tests.whole.conftest import Server, Start, content_of, events_of

pytestmark = pytest.mark.engine

MODEL = "tiny-paged"
# The model's answers to these do not end before: long enough to still run when all have begun.
CONTENTS = ["Count 11", "Count 14", "Count 41", "Count 43"]
LONG = 1200


@pytest.fixture
async def server(start_server: Start, tmp_path: Path) -> Server:
    write_tiny_model(tmp_path / "models" / MODEL, batching=DynamicBatching())
    write_tiny_model(tmp_path / "models" / "other", seed=1)
    return await start_server(None, parallel=4)


def body_of(content: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": content}]
    return {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": LONG, "stream": True, **fields}


class Stream:
    """A stream that is read at the test's pace."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._raw = b""

    async def begin(self) -> None:
        """Wait until there is some content."""
        while b'"content":"' not in self._raw.replace(b'"content":""', b""):
            piece = await self._response.content.readany()
            assert piece, self._raw
            self._raw += piece

    def close(self) -> None:
        """Leave, as a client does that is gone."""
        self._response.close()

    async def rest(self) -> list[Any]:
        """Read to the end; return all events, the last of which is the text "[DONE]"."""
        self._raw += await self._response.content.read()
        return events_of(self._raw.decode())


async def opened(server: Server, content: str, **fields: Any) -> Stream:
    response = await server.post("/v1/chat/completions", body_of(content, **fields))
    assert response.status == 200
    stream = Stream(response)
    await stream.begin()
    return stream


async def all_opened(server: Server, contents: Sequence[str]) -> list[Stream]:
    return await asyncio.gather(*(opened(server, content) for content in contents))


async def running(server: Server) -> tuple[int, int]:
    async with server.get("/health") as response:
        health = await response.json()
        return health["queue"]["running"], health["worker"]["parallel"]


@pytest.fixture
async def alone(server: Server) -> list[str]:
    """What each content is answered when nobody else asks."""
    return [content_of(await server.stream(MODEL, content, max_tokens=LONG)) for content in CONTENTS]


async def test_four_streams_get_what_they_get_alone(server: Server, alone: list[str]) -> None:
    streams = await all_opened(server, CONTENTS)
    assert await running(server) == (4, 4)

    events = await asyncio.gather(*(stream.rest() for stream in streams))

    assert [content_of(each) for each in events] == alone
    assert all(each[-1] == "[DONE]" for each in events)
    assert len(set(alone)) == len(CONTENTS)
    assert await running(server) == (0, 4)


async def test_one_that_leaves_changes_nothing_for_the_others(server: Server, alone: list[str]) -> None:
    streams = await all_opened(server, CONTENTS)
    streams[1].close()

    async with asyncio.timeout(20):
        while (await running(server))[0] == 4:
            await asyncio.sleep(0.002)

    late = await opened(server, CONTENTS[1])
    stayed = [streams[0], streams[2], streams[3], late]
    texts = [content_of(events) for events in await asyncio.gather(*(stream.rest() for stream in stayed))]
    assert texts == [alone[0], alone[2], alone[3], alone[1]]


async def test_a_stop_string_ends_one_and_no_other(server: Server, alone: list[str]) -> None:
    stop = alone[2][100:106]
    asked = [(content, {"stop": stop} if content is CONTENTS[2] else {}) for content in CONTENTS]

    events = await asyncio.gather(
        *(server.stream(MODEL, content, max_tokens=LONG, **fields) for content, fields in asked)
    )

    cut = alone[2][: alone[2].index(stop)]
    assert [content_of(each) for each in events] == [alone[0], alone[1], cut, alone[3]]
    assert 0 < len(cut) < len(alone[2])


async def test_a_killed_worker_gives_each_one_error_and_an_end(server: Server) -> None:
    streams = await all_opened(server, CONTENTS)

    async with server.get("/health") as response:
        health = await response.json()

    assert health["queue"]["running"] == len(streams)
    os.kill(health["worker"]["pid"], signal.SIGKILL)

    for events in await asyncio.gather(*(stream.rest() for stream in streams)):
        errors = [event for event in events if isinstance(event, dict) and "error" in event]
        assert [error["error"]["code"] for error in errors] == ["engine_crashed"]
        assert events[-2:] == [errors[0], "[DONE]"]

    assert (await server.chat(MODEL, max_tokens=3))["usage"]["completion_tokens"] == 3
    assert await running(server) == (0, 4)


@pytest.mark.parametrize("path", ["/v1/unload", "/v1/drain"])
async def test_unload_and_drain_wait_for_all(server: Server, alone: list[str], path: str) -> None:
    streams = await all_opened(server, CONTENTS[:3])

    async with server.post(path) as response:
        answer = await response.json()

    assert answer["model"] == MODEL
    texts = [content_of(events) for events in await asyncio.gather(*(stream.rest() for stream in streams))]
    assert texts == alone[:3]


async def test_another_model_waits_for_all_and_takes_one_at_a_time(server: Server, alone: list[str]) -> None:
    streams = await all_opened(server, CONTENTS[:3])
    other = asyncio.create_task(server.chat("other", max_tokens=3))

    texts = [content_of(events) for events in await asyncio.gather(*(stream.rest() for stream in streams))]
    assert texts == alone[:3]
    assert (await other)["usage"]["completion_tokens"] == 3
    assert await running(server) == (0, 1)
    assert content_of(await server.stream(MODEL, CONTENTS[0], max_tokens=LONG)) == alone[0]


async def test_a_prompt_that_was_read_before_is_told_as_cached(server: Server) -> None:
    first = (await server.chat(MODEL, "The quick brown fox. " * 4, max_tokens=2))["usage"]
    again = (await server.chat(MODEL, "The quick brown fox. " * 4, max_tokens=2))["usage"]

    assert first["prompt_tokens_details"]["cached_tokens"] == 0
    assert 0 < again["prompt_tokens_details"]["cached_tokens"] < again["prompt_tokens"] == first["prompt_tokens"]


async def test_an_answer_under_a_schema_runs_beside_free_ones(server: Server, alone: list[str]) -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": ["red", "green"]}, "many": {"type": "boolean"}},
        "required": ["kind", "many"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    streams = await all_opened(server, CONTENTS[:2])

    bound = await server.chat(MODEL, CONTENTS[3], response_format=wanted, max_tokens=300)

    jsonschema.validate(json.loads(bound["choices"][0]["message"]["content"]), schema)
    texts = [content_of(events) for events in await asyncio.gather(*(stream.rest() for stream in streams))]
    assert texts == alone[:2]
