"""Faults of the engine as clients see them: one plain answer before the stream begins, one error event and the end after."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from supervisor.host_status import HostState
from supervisor.poison_prompts import PoisonBounds
from supervisor.restart_settings import RestartSettings
from supervisor.settings import ModelRef, SupervisorSettings
from supervisor.watch_bounds import WatchBounds
from tests.conftest import on_stand_in
from tests.contract.client import CHAT, COMPLETIONS, TOOL, body_of
from tests.contract.conftest import TEMPLATE
from tests.contract.waiting import begin, until_state
from tests.whole.conftest import Server, Start, content_of, events_of

MakeModel = Callable[..., ModelRef]


class Fault(NamedTuple):
    """A way to fail. says: parts of the message."""

    script: dict[str, Any]
    status: int
    code: str | None
    says: tuple[str, ...]
    retry_after: str | None = None


def failing(code: str, message: str, is_fatal: bool, after: int = 2) -> dict[str, Any]:
    return {
        "text": ["a", "b", "c"],
        "fail": {"code": code, "message": message, "is_fatal": is_fatal},
        "fail_after": after,
    }


BEFORE = {
    "load refused": Fault(
        {"load_error": {"code": "other", "message": "no such op"}}, 500, "model_load_failed", ("no such op",)
    ),
    "device missing": Fault(
        {"load_error": {"code": "device_unavailable", "message": "libcublasLt.so.13"}},
        500,
        "model_load_failed",
        ("libcublasLt",),
    ),
    "load dies": Fault({"at": {"load": "abort"}}, 500, "model_load_failed", ("SIGABRT", "made_up")),
    "window full": Fault(
        {"reject": {"code": "context_length_exceeded", "message": "9 of 8"}},
        400,
        "context_length_exceeded",
        ("9 of 8",),
    ),
    "nothing to read": Fault(
        {"reject": {"code": "invalid_request", "message": "an empty prompt"}}, 400, None, ("an empty prompt",)
    ),
}
AFTER = {
    "dies in the prompt": Fault({"at": {"started": "exit:7"}}, 500, "engine_crashed", ("7", "made-up last words")),
    "killed": Fault({"text": ["a", "b", "c"], "at": {"token:2": "kill"}}, 500, "engine_crashed", ("SIGKILL",)),
    "aborts": Fault(
        {"text": ["a", "b", "c"], "at": {"token:2": "abort"}}, 500, "engine_crashed", ("SIGABRT", "made_up")
    ),
    "exits": Fault(
        {"text": ["a", "b", "c"], "at": {"token:2": "exit:7"}}, 500, "engine_crashed", ("7", "made-up last words")
    ),
    "garbage": Fault({"text": ["a", "b", "c"], "at": {"token:2": "garbage"}}, 500, "engine_crashed", ()),
    "engine error": Fault(failing("engine_error", "bad node", is_fatal=False), 500, "engine_crashed", ("bad node",)),
    "sticky error": Fault(
        failing("engine_error", "CUDA error 700", is_fatal=True), 500, "engine_crashed", ("CUDA error 700",)
    ),
    "out of memory": Fault(
        failing("out_of_memory", "bad allocation", is_fatal=True),
        503,
        "insufficient_resources",
        ("bad allocation",),
        "30",
    ),
}


def _assert_is(fault: Fault, error: Any) -> None:
    assert error["code"] == fault.code
    assert error["type"] == ("server_error" if fault.status >= 500 else "invalid_request_error")
    assert all(part in error["message"] for part in fault.says), error["message"]
    # No file or line of ours, and nothing of the language.
    assert "Traceback" not in error["message"]
    assert ".py" not in error["message"]


async def _assert_serves_again(server: Server) -> None:
    script = '@stand-in {"text": ["back"], "at": {}, "fail": null, "reject": null}'
    assert (await server.chat(content=script))["choices"][0]["message"]["content"] == "back"


@pytest.mark.parametrize("name", [*BEFORE, *AFTER])
async def test_a_fault_before_the_stream_is_a_plain_answer(
    start_server: Start, make_model: MakeModel, name: str
) -> None:
    """Whole answers have begun only when they are done, so every fault is before them."""
    fault = (BEFORE | AFTER)[name]
    make_model(**fault.script)
    server = await start_server()

    for path in (CHAT, COMPLETIONS):
        for stream in (False, True) if name in BEFORE else (False,):
            async with server.post(path, body_of(path, None, stream=stream)) as response:
                answer = await response.json()
                assert (response.status, response.content_type) == (fault.status, "application/json")
                assert response.headers.get("Retry-After") == fault.retry_after

            assert set(answer) == {"error"}
            _assert_is(fault, answer["error"])

    if not name.startswith(("load", "device")):
        await _assert_serves_again(server)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "chat") for name in AFTER),
        *((name, kind) for name in ("killed", "out of memory") for kind in ("tools", "text")),
    ],
)
async def test_a_fault_in_a_stream_is_one_error_and_the_end(
    start_server: Start, make_model: MakeModel, name: str, kind: str
) -> None:
    fault = AFTER[name]
    model = make_model(**fault.script)
    (model.path / "chat_template.jinja").write_text(TEMPLATE)
    server = await start_server()
    path = COMPLETIONS if kind == "text" else CHAT
    body = body_of(
        path,
        None,
        stream=True,
        stream_options={"include_usage": True},
        **({"tools": [TOOL]} if kind == "tools" else {}),
    )
    status, text = await begin(server, path, body)
    events = events_of(text)

    assert status == 200
    assert events[-1] == "[DONE]"
    assert text.count("[DONE]") == 1
    assert text.count('"error"') == 1
    assert set(events[-2]) == {"error"}
    _assert_is(fault, events[-2]["error"])
    # What was said before stands; nothing says that the answer is whole.
    assert all(not event["choices"] or event["choices"][0]["finish_reason"] is None for event in events[:-2])
    assert all(event["usage"] is None for event in events[:-2])
    assert kind != "chat" or content_of(events) == ("" if name == "dies in the prompt" else "ab")
    await _assert_serves_again(server)


async def test_a_later_prompt_that_does_not_fit_ends_the_stream_with_an_error(
    start_server: Start, make_model: MakeModel
) -> None:
    make_model(text=["x"])
    server = await start_server()
    reject = '@stand-in {"reject": {"code": "context_length_exceeded", "message": "9 of 8"}}'
    body = {"model": "stand-in", "prompt": ["one", reject], "stream": True}
    _, text = await begin(server, COMPLETIONS, body)
    events = events_of(text)

    assert events[0]["choices"][0]["text"] == "x"
    assert events[-2]["error"]["code"] == "context_length_exceeded"
    status, answer = await begin(server, COMPLETIONS, body | {"stream": False})
    assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")


async def test_a_worker_that_the_kernel_took_for_memory_is_a_lack_of_memory(
    start_server: Start, make_model: MakeModel, tmp_path: Path
) -> None:
    counter = tmp_path / "memory.events"
    counter.write_text("oom_kill 0\n")
    make_model(text=["a", "b"], at={"token:1": f"oom:{counter}"})
    server = await start_server(lambda settings: replace(on_stand_in(settings), oom_counter=counter))

    async with server.post(CHAT, body_of(CHAT, None)) as response:
        error = (await response.json())["error"]

    assert (response.status, error["code"]) == (503, "insufficient_resources")
    assert response.headers["Retry-After"] == "30"
    assert "memory ran out" in error["message"]


@pytest.mark.parametrize("script", [{"at": {"start": "sleep"}}, {"at": {"token:1": "sleep"}}], ids=["start", "answer"])
async def test_a_worker_that_hangs_is_told(start_server: Start, make_model: MakeModel, script: dict[str, Any]) -> None:
    def impatient(settings: SupervisorSettings) -> SupervisorSettings:
        return replace(on_stand_in(settings), watch=WatchBounds(interval_s=0.05, request_stall_s=0.5))

    make_model(**script)
    server = await start_server(impatient)
    status, answer = await begin(server, CHAT, body_of(CHAT, None))

    assert (status, answer["error"]["code"]) == (500, "engine_unresponsive")
    await until_state(server, HostState.IDLE)


async def test_a_model_whose_loads_keep_failing_is_refused_with_the_reason(
    start_server: Start, make_model: MakeModel
) -> None:
    make_model(at={"load": "exit:1"})
    make_model("well", text=["ok"])
    server = await start_server(lambda settings: replace(on_stand_in(settings), restart=RestartSettings()))

    for _ in range(2):
        status, answer = await begin(server, CHAT, body_of(CHAT, None))
        assert (status, answer["error"]["code"]) == (500, "model_load_failed")

    async with server.post(CHAT, body_of(CHAT, None)) as response:
        error = (await response.json())["error"]

    assert (response.status, error["code"]) == (503, "model_unavailable")
    assert 1 <= int(response.headers["Retry-After"]) <= 60
    assert error["type"] == "server_error"
    assert "made-up last words" in error["message"]
    assert (await server.chat("well"))["choices"][0]["message"]["content"] == "ok"


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_a_prompt_that_ended_two_workers_is_refused(
    start_server: Start, make_model: MakeModel, path: str
) -> None:
    make_model(text=["a"])
    server = await start_server(lambda settings: replace(on_stand_in(settings), poison=PoisonBounds()))
    body = body_of(path, {"at": {"token:1": "kill"}})
    answers = [await begin(server, path, body) for _ in range(3)]

    assert [status for status, _ in answers] == [500, 500, 400]
    assert answers[2][1]["error"]["type"] == "invalid_request_error"
    assert "ended under this prompt" in answers[2][1]["error"]["message"]
    await _assert_serves_again(server)


async def test_those_who_waited_for_a_worker_that_died_are_served(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["a"] * 30, delay_s=0.01)
    server = await start_server()
    dying = begin(server, CHAT, body_of(CHAT, {"at": {"token:20": "kill"}}))
    await until_state(server, HostState.BUSY)
    waiting = [begin(server, CHAT, body_of(CHAT, {"text": ["served"], "delay_s": 0})) for _ in range(2)]

    assert (await dying)[1]["error"]["code"] == "engine_crashed"
    for status, answer in await asyncio.gather(*waiting):
        assert status == 200
        assert answer["choices"][0]["message"]["content"] == "served"


async def test_a_fault_that_nobody_foresaw_is_told_without_its_story(
    start_server: Start, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make_model()
    server = await start_server()

    async def broken(_: object) -> None:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(server.services.catalog, "find_exact", broken)
    status, answer = await begin(server, CHAT, body_of(CHAT, None))

    assert (status, answer["error"]["code"], answer["error"]["type"]) == (500, None, "server_error")
    assert "secret" not in answer["error"]["message"]
    assert "a secret of the inside" in caplog.text


async def test_a_connection_that_broke_is_no_fault_of_the_server(
    start_server: Start, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A write to a client that has left raises in the handler; there is no story to tell about it."""
    make_model()
    server = await start_server()

    async def reset(_: object) -> None:
        raise ConnectionResetError("the client has left")

    monkeypatch.setattr(server.services.catalog, "resolve", reset)
    await begin(server, CHAT, body_of(CHAT, None))

    assert not any(record.exc_info or record.levelname == "ERROR" for record in caplog.records)
