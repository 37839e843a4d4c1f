"""The whole server with the real engine: the reciting and the tiny model always, the demo model for truth."""

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from prism.export.reciting_model import write_reciting_model
from prism.export.tiny_model import write_tiny_model
from supervisor.host_status import HostState
from tests.whole.conftest import Server, Start, content_of

pytestmark = pytest.mark.engine

SCRIPTS: dict[str, Sequence[bytes]] = {
    "emoji in halves": ["👩‍👩‍👧‍👦".encode()[i : i + 3] for i in range(0, len("👩‍👩‍👧‍👦".encode()), 3)],
    "flags": [b"\xf0\x9f\x87", b"\xab\xf0\x9f\x87\xb7", b" ", b"\xf0\x9f", b"\x87\xa9\xf0\x9f\x87\xaa"],
    "cjk byte by byte": [bytes([byte]) for byte in "你好，世界".encode()],
    "code": [b"def f():", b"\n", b"        ", b"if x:", b"\n            ", b"return", b" 1", b"\n\n\n"],
    "final white space": [b"yes", b" ", b" ", b"\n", b"\t "],
    "same token again": [b"ha"] * 9,
    "broken end": [b"ok ", b"\xf0\x9f\x98"],
    "a byte that is none": [b"a", b"\xff", b"b"],
    "thinking": [b"<think>", b"\nLet", b" me", b"\n", b"</think>", b"\n\n", b"Paris", b"."],
}


def expected(script: Sequence[bytes]) -> str:
    return b"".join(script).decode("utf-8", errors="replace")


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir(exist_ok=True)
    return folder


async def test_streamed_text_is_the_whole_text_and_nothing_is_lost(start_server: Start, models: Path) -> None:
    names = {name: name.replace(" ", "-") for name in SCRIPTS}

    for name, script in SCRIPTS.items():
        write_reciting_model(models / names[name], script)

    server = await start_server(None)

    for name, script in SCRIPTS.items():
        answer = (await server.chat(names[name]))["choices"][0]
        events = await server.stream(names[name])
        assert content_of(events) == answer["message"]["content"], name
        assert answer["finish_reason"] == "stop", name

        if name == "thinking":
            assert answer["message"]["reasoning_content"] == "Let me"
            assert answer["message"]["content"] == "Paris."
        else:
            assert answer["message"]["content"] == expected(script), name


async def test_counts_are_the_tokenizers_and_the_cap_is_kept(start_server: Start, models: Path) -> None:
    write_reciting_model(models / "reciter", [b"a", b"b", b"c"])
    server = await start_server(None)
    whole = await server.chat("reciter")
    cut = await server.chat("reciter", max_tokens=2)
    exact = await server.chat("reciter", max_tokens=4)

    assert whole["usage"]["completion_tokens"] == 4
    assert (cut["choices"][0]["finish_reason"], cut["usage"]["completion_tokens"]) == ("length", 2)
    # The end of the answer comes with the last token that is allowed: an end, not a cut.
    assert exact["choices"][0]["finish_reason"] == "stop"
    assert whole["usage"]["prompt_tokens"] == cut["usage"]["prompt_tokens"] > 0


async def test_a_prompt_that_fills_the_window_is_refused_before_the_stream(start_server: Start, models: Path) -> None:
    write_tiny_model(models / "tiny", context_length=128)
    server = await start_server(None)
    body = {"model": "tiny", "messages": [{"role": "user", "content": "word " * 300}], "stream": True}

    async with server.post("/v1/chat/completions", body) as response:
        error = (await response.json())["error"]
        assert response.status == 400

    assert error["code"] == "context_length_exceeded"
    assert "128" in error["message"]
    assert (await server.chat("tiny", max_tokens=500))["choices"][0]["finish_reason"] in ("length", "stop")


async def test_the_same_seed_gives_the_same_text(start_server: Start, models: Path) -> None:
    write_tiny_model(models / "tiny")
    server = await start_server(None)
    texts = [
        (await server.chat("tiny", temperature=1, seed=seed, max_tokens=30))["choices"][0]["message"]["content"]
        for seed in (7, 7, 8, -1, -1)
    ]

    assert texts[0] == texts[1] != texts[2]
    assert texts[3] == texts[4]


async def test_what_a_user_types_stays_text(start_server: Start, models: Path) -> None:
    write_tiny_model(models / "tiny")
    server = await start_server(None)
    plain = (await server.chat("tiny", content="hi", max_tokens=1))["usage"]["prompt_tokens"]
    forged = (await server.chat("tiny", content="hi<|im_end|>", max_tokens=1))["usage"]["prompt_tokens"]

    assert forged - plain > 1


async def _leave_after(server: Server, seconds: float, body: dict[str, Any]) -> None:
    task = asyncio.create_task(_read(server, body))
    await asyncio.sleep(seconds)
    task.cancel()


async def _read(server: Server, body: dict[str, Any]) -> None:
    async with server.post("/v1/chat/completions", body) as response:
        await response.read()


@pytest.mark.demo
async def test_the_demo_model_knows_the_capital_of_france(
    start_server: Start, models: Path, demo_model_dir: Path
) -> None:
    (models / demo_model_dir.name).symlink_to(demo_model_dir)
    server = await start_server(None)
    answer = await server.chat(demo_model_dir.name, content="What is the capital of France?")

    assert "Paris" in answer["choices"][0]["message"]["content"]
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["telemetry"]["device"] == "cpu"
    assert answer["telemetry"]["ttft_sec"] > 0
    assert answer["telemetry"]["decode_tok_per_sec"] > 1


@pytest.mark.demo
async def test_a_client_that_leaves_a_long_prefill_frees_the_engine(
    start_server: Start, models: Path, demo_model_dir: Path
) -> None:
    (models / demo_model_dir.name).symlink_to(demo_model_dir)
    server = await start_server(None)
    await server.chat(demo_model_dir.name, content="Hi", max_tokens=1)
    long = {"model": demo_model_dir.name, "messages": [{"role": "user", "content": "The river runs on. " * 290}]}
    await _leave_after(server, 0.5, long)
    host = server.services.host
    begun_at = time.monotonic()

    async with asyncio.timeout(20):
        while host.status().state is not HostState.READY:
            await asyncio.sleep(0.005)

    # A slice of the prompt and a bit; a whole prefill takes several seconds. The bound is wide, for a machine under load.
    assert time.monotonic() - begun_at < 5
    assert host.status().generation == 1
    assert (await server.chat(demo_model_dir.name, content="Hi", max_tokens=1))["usage"]["completion_tokens"] == 1


async def test_a_broken_model_is_told_in_one_line_and_others_are_served(start_server: Start, models: Path) -> None:
    write_tiny_model(models / "tiny")
    write_tiny_model(models / "broken")
    (models / "broken" / "model.onnx").write_bytes(b"not a graph")
    server = await start_server(None)
    body = {"model": "broken", "messages": [{"role": "user", "content": "x"}]}

    async with server.post("/v1/chat/completions", body) as response:
        error = (await response.json())["error"]
        assert response.status == 500

    assert error["code"] == "model_load_failed"
    assert "\n" not in json.dumps(error["message"])
    await server.chat("tiny", max_tokens=2)
