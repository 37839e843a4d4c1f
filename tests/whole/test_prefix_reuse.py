"""Kept prefixes through the whole server: what shows in usage, and who shares with whom."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from prism.export.genai_config import DynamicBatching
from prism.export.tiny_model import write_tiny_model
from tests.served import write_model
from tests.whole.conftest import Server, Start, content_of

KEYS = ("first-key", "second-key")
FIRST = {"Authorization": f"Bearer {KEYS[0]}"}
SECOND = {"Authorization": f"Bearer {KEYS[1]}"}
QUESTION = "What is the name of the river that the people of this long valley live beside? "


def cached(answer: Any) -> int:
    return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


async def post(server: Server, path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
    async with server.post(path, {"temperature": 0, "max_tokens": 6, **body}, headers=headers or {}) as response:
        answer = await response.json()
        assert response.status == 200, answer
        return answer


async def ask(server: Server, messages: list[Any], headers: dict[str, str] | None = None, **fields: Any) -> Any:
    return await post(server, "/v1/chat/completions", {"model": "tiny", "messages": messages, **fields}, headers)


def user(content: str = QUESTION) -> dict[str, str]:
    return {"role": "user", "content": content}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    write_tiny_model(tmp_path / "models" / "tiny")
    return tmp_path / "models"


@pytest.mark.engine
async def test_the_next_turn_is_told_to_be_cached(start_server: Start, models: Path) -> None:
    server = await start_server(None)
    first = await ask(server, [user()])
    said = {"role": "assistant", "content": first["choices"][0]["message"]["content"]}
    second = await ask(server, [user(), said, user("And then?")])
    assert cached(first) == 0
    assert first["usage"]["prompt_tokens"] - 8 <= cached(second) < second["usage"]["prompt_tokens"]
    again = await ask(server, [user(), said, user("And then?")])
    assert cached(again) == again["usage"]["prompt_tokens"] - 1
    assert again["choices"] == second["choices"]


@pytest.mark.engine
async def test_an_answer_that_a_stop_string_ended_is_told_so_and_continued(start_server: Start, models: Path) -> None:
    server = await start_server(None)
    text = (await ask(server, [user()], max_tokens=24))["choices"][0]["message"]["content"]
    stop = text[3:5]
    events = await server.stream("tiny", QUESTION, stop=stop, max_tokens=24, stream_options={"include_usage": True})
    usage = events[-2]["usage"]
    assert content_of(events) == text[: text.index(stop)]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1
    again = await ask(server, [user()], max_tokens=24)
    assert again["choices"][0]["message"]["content"] == text
    assert cached(again) == usage["prompt_tokens"] - 1


@pytest.mark.engine
async def test_keys_share_nothing_and_nothing_outlives_the_worker(start_server: Start, models: Path) -> None:
    server = await start_server(None, api_keys=KEYS)
    counts = [cached(await ask(server, [user()], headers)) for headers in (FIRST, SECOND, FIRST, SECOND)]
    assert counts[:2] == [0, 0]
    assert min(counts[2:]) > 0

    async with server.post("/v1/unload", headers=FIRST) as response:
        assert response.status == 200

    assert cached(await ask(server, [user()], FIRST)) == 0


@pytest.mark.engine
@pytest.mark.parametrize(
    ("settings", "is_shared"),
    [({"api_keys": KEYS[:1]}, True), ({"api_keys": KEYS}, False), ({"api_keys": KEYS[:1], "kv_slots": 0}, False)],
    ids=["one key", "two keys", "nothing kept"],
)
async def test_a_paged_model_keeps_blocks_only_where_all_clients_may_share_them(
    start_server: Start, tmp_path: Path, settings: dict[str, Any], is_shared: bool
) -> None:
    """Its engine does not tell whose blocks they are."""
    write_tiny_model(tmp_path / "models" / "tiny", batching=DynamicBatching(blocks=128))
    server = await start_server(None, **settings)
    counts = [cached(await ask(server, [user()], FIRST)) for _ in range(2)]
    assert counts[0] == 0
    assert (counts[1] > 0) == is_shared


@pytest.mark.engine
async def test_conversations_are_kept_apart_by_their_names(start_server: Start, models: Path) -> None:
    server = await start_server(None)
    names: list[dict[str, Any]] = [{"conversation_id": "a"}, {"prompt_cache_key": "b"}, {}]
    assert [cached(await ask(server, [user()], **name)) for name in names] == [0, 0, 0]
    assert min([cached(await ask(server, [user()], **name)) for name in names]) > 0


@pytest.mark.engine
async def test_a_client_that_leaves_in_the_middle_changes_no_later_answer(start_server: Start, models: Path) -> None:
    keeping, plain = await start_server(None), await start_server(None, kv_slots=0)
    long = user(QUESTION * 12)

    for number in range(6):
        body = {"model": "tiny", "messages": [long], "stream": True, "max_tokens": 400, "temperature": 0}

        # Before the first text, and after some of it.
        async with keeping.post("/v1/chat/completions", body) as response:
            for _ in range(number):
                await response.content.readline()

        messages = [long, {"role": "assistant", "content": "It is"}, user(f"Go on {number}.")]
        ours, theirs = await ask(keeping, messages, max_tokens=20), await ask(plain, messages, max_tokens=20)
        assert ours["choices"] == theirs["choices"]
        # The first client left before anything was computed for it, or after.
        assert number == 0 or cached(ours) > 0


@pytest.mark.engine
async def test_no_slots_and_a_seed_keep_nothing(start_server: Start, models: Path) -> None:
    server = await start_server(None, kv_slots=0)
    assert [cached(await ask(server, [user()])) for _ in range(2)] == [0, 0]
    seeded = await start_server(None)
    answers = [await ask(seeded, [user()], seed=5, temperature=1.0) for _ in range(2)]
    assert [cached(answer) for answer in answers] == [0, 0]
    assert answers[0]["choices"] == answers[1]["choices"]


@pytest.mark.engine
async def test_raw_prompts_are_continued_too(start_server: Start, models: Path) -> None:
    server = await start_server(None)
    answer = await post(server, "/v1/completions", {"model": "tiny", "prompt": [QUESTION, QUESTION + "Tell me."]})
    assert cached(answer) > 20


async def told(server: Server, path: str, headers: dict[str, str] | None = None, **fields: Any) -> Any:
    body = {"model": "stand-in", "messages": [user()], "prompt": "hello", **fields}
    answer = await post(server, path, body, headers)
    choice = answer["choices"][0]
    return json.loads(base64.b64decode(choice.get("text") or choice["message"]["content"]))["reuse"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_the_worker_is_told_whose_request_it_is_but_not_the_key(
    start_server: Start, tmp_path: Path, path: str
) -> None:
    write_model(tmp_path, "stand-in", {"echo": True}, "{{ messages[0].content }}")
    server = await start_server(api_keys=KEYS)
    first = await told(server, path, FIRST, conversation_id="c", prompt_cache_key="k", cache_ttl="5m")
    second = await told(server, path, SECOND, prompt_cache_key="k")
    assert (first["conversation"], first["ttl_s"]) == ("c", 300)
    assert (second["conversation"], second["ttl_s"]) == ("k", None)
    assert len({first["scope"], second["scope"], ""}) == 3
    assert (await told(server, path, FIRST))["scope"] == first["scope"]
    assert not any(key in json.dumps([first, second]) for key in KEYS)
    another = await start_server(api_keys=KEYS)
    assert (await told(another, path, FIRST))["scope"] != first["scope"]


async def test_a_server_without_keys_tells_those_apart_who_send_one(start_server: Start, tmp_path: Path) -> None:
    write_model(tmp_path, "stand-in", {"echo": True}, "{{ messages[0].content }}")
    server = await start_server()
    scopes = [(await told(server, "/v1/completions", headers))["scope"] for headers in ({}, FIRST, SECOND, FIRST)]
    assert scopes[0] == ""
    assert len(set(scopes)) == 3
    assert scopes[1] == scopes[3]
