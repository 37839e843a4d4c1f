"""What clients are told about answers: reasons, speeds, devices, and the work of those who left."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gpu_worker import generation
from ipc.messages import DeviceChoice, FromWorker, Progress
from prism.export.reciting_model import write_reciting_model
from supervisor.host_status import HostState
from supervisor.settings import ModelRef
from tests.contract.client import CHAT, COMPLETIONS, EMBEDDINGS, body_of
from tests.contract.conftest import TEMPLATE
from tests.contract.waiting import begin, until_state
from tests.gpu_worker.scripted import EOS, ScriptedChannel, ScriptedEngine, request
from tests.gpu_worker.test_generation import run
from tests.whole.conftest import Server, Start

MakeModel = Callable[..., ModelRef]


async def health(server: Server) -> Any:
    async with server.get("/health") as response:
        return await response.json()


@pytest.mark.engine
async def test_a_stream_that_was_left_says_nothing_about_the_next_answer(start_server: Start, tmp_path: Path) -> None:
    """B-13: the reason of a stream that was closed early stayed behind as that of the model."""
    write_reciting_model(tmp_path / "models" / "reciter", [b"a", b"b"] * 400)
    server = await start_server(None, has_loop_guard=False)
    body = {"model": "reciter", "prompt": "x", "max_tokens": 700, "stream": True}

    async with server.post(COMPLETIONS, body) as response:
        assert (await response.content.readline()).startswith(b"data: ")

    await until_state(server, HostState.READY)
    answer = await server.chat("reciter", max_tokens=900)
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == 801


async def test_a_fallback_is_warned_of_and_its_reason_is_shown(
    start_server: Start, make_model: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    """B-02, B-03 and D-44: the CPU was used without a word, under the name of a GPU."""
    make_model("phi-cuda-gpu", device="cpu", fallback_reason="libcublasLt.so.13 is missing")
    server = await start_server(device=DeviceChoice.AUTO)
    answer = await server.chat("phi-cuda-gpu")
    state = await health(server)

    async with server.get("/v1/models") as response:
        (model,) = (await response.json())["data"]

    assert answer["telemetry"]["device"] == state["active_device"] == "cpu"
    assert state["fallback_reason"] == "libcublasLt.so.13 is missing"
    assert (model["device"], model["exported_for"]) == ("CPU", "CUDA (GPU)")
    assert [r.levelname for r in caplog.records if "libcublasLt.so.13" in r.getMessage()] == ["WARNING"]


class SteppingClock:
    """Goes on half a second each time that it is looked at; a test may push it."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 0.5
        return self.now


class SlowPrefill(ScriptedChannel):
    """Lets ten seconds pass with each slice of the prompt."""

    def __init__(self, clock: SteppingClock) -> None:
        super().__init__()
        self._clock = clock

    def send(self, message: FromWorker) -> None:
        super().send(message)
        self._clock.now += 10 if isinstance(message, Progress) else 0


def test_speed_is_of_the_tokens_after_the_first_and_the_prompt_is_no_part_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D-21: it was computed in several ways, one of which counted the prompt's time."""
    clock = SteppingClock()
    monkeypatch.setattr(generation, "time", clock)
    finished, _ = run(ScriptedEngine([*b"abcd", EOS]), request("abcdef"), SlowPrefill(clock), prefill_chunk=3)
    assert finished.ttft_sec == 20.5
    assert finished.decode_tok_per_sec == 2.0


@pytest.mark.parametrize("max_tokens", [512, 3], ids=["whole", "cut in the thinking"])
async def test_only_the_last_event_of_a_thinking_answer_has_a_reason(
    start_server: Start, make_model: MakeModel, max_tokens: int
) -> None:
    """Case 108."""
    make_model(text=["<think>", "a", "b", "c", "</think>", "Yes", "."])
    server = await start_server()
    events = (await server.stream(max_tokens=max_tokens))[:-1]
    reasons = [event["choices"][0]["finish_reason"] for event in events]
    assert reasons == [None] * (len(events) - 1) + ["stop" if max_tokens == 512 else "length"]
    assert events[-1]["choices"][0]["delta"] == {}


async def test_parts_of_text_are_the_text_in_every_role(start_server: Start, make_model: MakeModel) -> None:
    """Cases 80 and 81, and B-27: a list became its own Python form in the prompt."""
    model = make_model(echo=True)
    (model.path / "chat_template.jinja").write_text(TEMPLATE)
    server = await start_server()
    roles = ("system", "developer", "user", "assistant", "tool", "user")
    plain = [{"role": role, "content": f"the words of {role}"} for role in roles]
    parts = [turn | {"content": [{"type": "text", "text": turn["content"]}]} for turn in plain]
    answers = []

    for messages in (plain, parts):
        async with server.post(CHAT, {"model": "stand-in", "messages": messages}) as response:
            assert response.status == 200
            answers.append((await response.json())["choices"])

    assert answers[0] == answers[1]


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, EMBEDDINGS, "/v1/unload", "/v1/drain"])
@pytest.mark.parametrize("field", ["model", "user"])
async def test_half_a_pair_is_a_400_on_every_endpoint(
    start_server: Start, make_model: MakeModel, path: str, field: str
) -> None:
    """Case 85: it was a fault of the server, which clients then tried again."""
    make_model()
    server = await start_server()
    known = body_of(path, None) if path in (CHAT, COMPLETIONS, EMBEDDINGS) else {}
    body = json.dumps(known | {field: "HALF"}).replace("HALF", "\\ud83d")

    async with server.post(path, body) as response:
        error = (await response.json())["error"]
        assert (response.status, error["param"]) == (400, field)

    assert not server.services.draining.is_set()


async def test_several_unloads_at_once_release_one_model_once(start_server: Start, make_model: MakeModel) -> None:
    """B-37: two could both say that they had released it."""
    make_model()
    server = await start_server()
    await server.chat()
    answers = await asyncio.gather(*(begin(server, "/v1/unload", b"") for _ in range(4)))
    assert sorted(answer["unloaded"] for _, answer in answers) == [False, False, False, True]
    assert {(answer["unloaded"], answer["model"]) for _, answer in answers} == {(True, "stand-in"), (False, None)}


async def test_a_death_in_a_stream_is_counted(start_server: Start, make_model: MakeModel) -> None:
    """Case 59: the stream ended like any other, and nothing showed that it had failed."""
    make_model(text=["a", "b", "c"])
    server = await start_server()
    events = await server.stream(content='@stand-in {"at": {"token:2": "kill"}}')
    assert events[-2]["error"]["code"] == "engine_crashed"
    await server.chat()
    assert (await health(server))["worker"]["restarts"] == 1


async def test_hundreds_of_idle_connections_keep_nobody_out(start_server: Start, make_model: MakeModel) -> None:
    """D-46: each took a thread; some are idle, some stop in the middle of their headers or their body."""
    make_model()
    server = await start_server()
    address = urlsplit(server.base_url)
    begun = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"
    idle = await asyncio.gather(*(asyncio.open_connection(address.hostname, address.port) for _ in range(200)))

    for number, (_, writer) in enumerate(idle):
        writer.write((b"", begun[:40], begun)[number % 3])

    started_at = time.monotonic()
    assert (await server.chat())["choices"][0]["finish_reason"] == "stop"
    assert time.monotonic() - started_at < 5

    for _, writer in idle:
        writer.close()


async def test_a_name_that_only_holds_the_prefix_of_ollama_is_an_ordinary_one(
    start_server: Start, make_model: MakeModel
) -> None:
    """D-29: the prefix was taken out wherever it stood."""
    make_model("my-ollama:tiny")
    server = await start_server()
    assert (await server.chat("my-ollama:tiny"))["model"] == "my-ollama:tiny"
    # With the prefix it is the daemon's, which does not run here.
    status, answer = await begin(server, CHAT, body_of(CHAT, None, model="ollama:my-ollama:tiny"))
    assert (status, answer["error"]["code"]) == (502, "backend_unavailable")
