"""Embeddings through a whole server, and every way in which a daemon can get them wrong."""

import json
from typing import Any

import pytest

from tests.ollama.conftest import StartBeside
from tests.ollama.fake_daemon import FakeDaemon, floats_of, vector
from tests.whole.conftest import Server

TEXTS = ["first text", "second", "天"]


async def embed(server: Server, model: str = "ollama:nomic", **fields: Any) -> tuple[int, Any]:
    async with server.post("/v1/embeddings", {"model": model, "input": TEXTS, **fields}) as response:
        return response.status, await response.json()


@pytest.fixture
async def server(start_beside: StartBeside, daemon: FakeDaemon) -> Server:
    daemon.models["nomic:latest"] = 274_302_450
    return await start_beside()


async def test_each_text_has_a_vector_in_its_place(server: Server, daemon: FakeDaemon) -> None:
    status, answer = await embed(server)
    assert status == 200
    assert answer == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": number, "embedding": vector(text)} for number, text in enumerate(TEXTS)
        ],
        "model": "ollama:nomic",
        "usage": {"prompt_tokens": 8, "total_tokens": 8},
    }
    assert daemon.bodies("/api/embed") == [{"model": "nomic", "input": TEXTS, "truncate": False}]


async def test_base64_is_the_same_in_little_endian_floats(server: Server) -> None:
    _, answer = await embed(server, encoding_format="base64")
    assert [floats_of(one["embedding"]) for one in answer["data"]] == [vector(text) for text in TEXTS]


async def test_one_text_and_a_name_without_the_prefix(server: Server) -> None:
    _, answer = await embed(server, "Nomic", input="one")
    assert [one["embedding"] for one in answer["data"]] == [vector("one")]
    assert answer["model"] == "Nomic"


async def test_256_texts(server: Server) -> None:
    _, answer = await embed(server, input=[f"text {number}" for number in range(256)])
    assert [one["index"] for one in answer["data"]] == list(range(256))


async def test_without_a_count_usage_is_zero(server: Server, daemon: FakeDaemon) -> None:
    daemon.embed = b'{"embeddings": [[1.0]]}'
    _, answer = await embed(server, input="one")
    assert answer["usage"] == {"prompt_tokens": 0, "total_tokens": 0}


@pytest.mark.parametrize(
    "answer",
    [
        b'{"embeddings": [[1.0, NaN], [1, 2], [1, 2]]}',
        b'{"embeddings": [[1.0, null], [1, 2], [1, 2]]}',
        b'{"embeddings": [[1.0, Infinity], [1, 2], [1, 2]]}',
        b'{"embeddings": [[1.0, 1e999], [1, 2], [1, 2]]}',
        b'{"embeddings": [["a", 2], [1, 2], [1, 2]]}',
        b'{"embeddings": [[1, 2], [1, 2]]}',
        b'{"embeddings": [[1, 2], [1, 2], [1, 2], [1, 2]]}',
        b'{"embeddings": [[1, 2], [1], [1, 2]]}',
        b'{"embeddings": [[], [], []]}',
        b'{"embeddings": null}',
        b"{}",
        b"[]",
        b"",
        b"not JSON",
        b'{"embedding": [1, 2]}',
    ],
)
@pytest.mark.parametrize("form", ["float", "base64"])
async def test_what_is_no_vector_for_each_text_is_a_502(
    server: Server, daemon: FakeDaemon, answer: bytes, form: str
) -> None:
    """Case 115: a NaN broke the JSON of the answer."""
    daemon.embed = answer
    status, told = await embed(server, encoding_format=form)
    assert (status, told["error"]["code"]) == (502, "backend_unavailable")


async def test_a_number_that_is_no_32_bit_float(server: Server, daemon: FakeDaemon) -> None:
    daemon.embed = b'{"embeddings": [[1e39]]}'
    status, told = await embed(server, encoding_format="base64", input="x")
    assert (status, told["error"]["code"]) == (502, "backend_unavailable")


@pytest.mark.parametrize(
    ("status", "error", "expected", "code", "param"),
    [
        (400, "this model does not support embeddings", 400, "embeddings_not_supported", "model"),
        (501, "this model does not support embeddings", 400, "embeddings_not_supported", "model"),
        (400, "the input length exceeds the context length", 400, "context_length_exceeded", "input"),
        (400, "invalid input type", 400, None, None),
        (404, 'model "nomic" not found, try pulling it first', 404, "model_not_found", "model"),
        (500, "failed to encode response: json: unsupported value: NaN", 502, "backend_unavailable", None),
    ],
)
async def test_a_refusal_is_told_in_the_daemons_words(
    server: Server, daemon: FakeDaemon, status: int, error: str, expected: int, code: str | None, param: str | None
) -> None:
    """B-45: a model that makes no embeddings was an error without a reason."""
    daemon.refusals["nomic"] = (status, error)
    got, told = await embed(server)
    assert (got, told["error"]["code"], told["error"]["param"]) == (expected, code, param)
    assert error in told["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"input": []}, None, "input"),
        ({"input": ["a"] * 257}, None, "input"),
        ({"input": [1, 2]}, None, "input[0]"),
        ({"input": [[1, 2]]}, None, "input[0]"),
        ({"input": ""}, None, "input"),
        ({"dimensions": 8}, "dimensions_not_supported", "dimensions"),
        ({"encoding_format": "hex"}, None, "encoding_format"),
    ],
)
async def test_what_is_refused_never_reaches_the_daemon(
    server: Server, daemon: FakeDaemon, fields: dict[str, Any], code: str | None, param: str
) -> None:
    status, told = await embed(server, **fields)
    assert (status, told["error"]["code"], told["error"]["param"]) == (400, code, param)
    assert daemon.asked == []


async def test_large_answers_are_taken(server: Server, daemon: FakeDaemon) -> None:
    """256 vectors of 4,096 numbers are past ten megabytes."""
    vectors = [[0.123456789 + number] * 4096 for number in range(256)]
    daemon.embed = json.dumps({"embeddings": vectors}).encode()
    _, answer = await embed(server, input=["x"] * 256, encoding_format="base64")
    assert len(answer["data"]) == 256
    assert floats_of(answer["data"][3]["embedding"])[0] == pytest.approx(3.123456789)
