"""Connections: kept, closed, half closed, used ahead of the answer, and left by their clients."""

import asyncio
import json
import socket
import struct
from collections.abc import Callable

import pytest

from prism.http import app as app_module
from supervisor.host_status import HostState
from supervisor.settings import ModelRef
from tests.contract.client import CHAT, COMPLETIONS, TOOL, Client, body_of
from tests.contract.conftest import TEMPLATE
from tests.contract.waiting import begin, leave, until, until_state
from tests.raw_http import Wire, head, send
from tests.whole.conftest import Start

MakeModel = Callable[..., ModelRef]
SLOW = {"text": ["a"] * 2000, "delay_s": 0.005}


def posted(path: str, body: object, *headers: str, version: str = "1.1") -> str:
    content = json.dumps(body)
    return head("POST", path, f"Content-Length: {len(content)}", *headers, version=version) + content


def test_one_connection_serves_many_requests(served: Client) -> None:
    chat = body_of(CHAT, {"text": ["one"]})

    with Wire(served.base_url) as wire:
        for _ in range(2):
            wire.send(posted(CHAT, chat))
            assert wire.reply().json["choices"][0]["message"]["content"] == "one"
            wire.send(posted(CHAT, chat | {"stream": True}))
            assert wire.reply().body.endswith(b"data: [DONE]\n\n")
            wire.send(head("GET", "/nothing"))
            assert wire.reply().status == 404
            wire.send(head("HEAD", "/health"))
            assert wire.reply(has_body=False).status == 200
            wire.send(posted("/v1/drain", [1]))
            assert wire.reply().status == 400
            wire.send(posted("/nothing", {"a": "body"}))
            assert wire.reply().status == 404
            wire.send(posted("/health", {"a": "body"}))
            assert wire.reply().status == 405


def test_requests_sent_ahead_are_answered_in_order(served: Client) -> None:
    texts = ("first", "second", "third")

    with Wire(served.base_url) as wire:
        wire.send(
            "".join(posted(CHAT, body_of(CHAT, {"text": [text]})) for text in texts) + head("GET", "/health/ready")
        )
        assert [wire.reply().json["choices"][0]["message"]["content"] for _ in texts] == list(texts)
        assert wire.reply().json["ready"] is True


def test_a_client_that_wants_the_end_gets_it(served: Client) -> None:
    for request in (
        head("GET", "/health", "Connection: close"),
        posted(CHAT, body_of(CHAT, None), "Connection: close"),
    ):
        with Wire(served.base_url) as wire:
            wire.send(request)
            reply = wire.reply()
            assert (reply.status, reply.headers["connection"]) == (200, "close")
            assert wire.is_closed()


def test_http_1_0(served: Client) -> None:
    with Wire(served.base_url) as wire:
        wire.send(head("GET", "/health", version="1.0"))
        assert wire.reply().status == 200
        assert wire.is_closed()

    with Wire(served.base_url) as wire:
        wire.send(head("GET", "/health", "Connection: keep-alive", version="1.0"))
        assert wire.reply().headers["connection"] == "keep-alive"
        wire.send(head("GET", "/health", version="1.0"))
        assert wire.reply().status == 200


def test_a_stream_for_http_1_0_ends_with_the_connection(served: Client) -> None:
    body = body_of(CHAT, {"text": ["Hel", "lo"]}, stream=True)

    with Wire(served.base_url) as wire:
        wire.send(posted(CHAT, body, version="1.0"))
        reply = wire.reply()
        assert "transfer-encoding" not in reply.headers
        assert reply.body.startswith(b'data: {"id":"chatcmpl-')
        assert reply.body.endswith(b"data: [DONE]\n\n")


def test_a_wish_to_upgrade_is_passed_over(served: Client) -> None:
    websocket = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13")
    assert send(served.base_url, "GET", "/health", *websocket).status == 200
    h2c = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")
    assert send(served.base_url, "POST", "/v1/unload", *h2c, body="[]").status == 400


async def test_a_client_that_closes_its_half_counts_as_gone(start_server: Start, make_model: MakeModel) -> None:
    """The end of what a client sends looks the same whether it still reads or not, and work for nobody is the worse mistake."""
    make_model(**SLOW)
    server = await start_server()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.base_url.rpartition(":")[2]))
    writer.write(posted(CHAT, body_of(CHAT, None, max_tokens=2000)).encode())
    await until_state(server, HostState.BUSY)
    writer.write_eof()
    await until_state(server, HostState.READY)
    assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize("kind", ["whole", "tools", "tools streamed", "text", "text streamed", "prefill"])
async def test_a_client_that_leaves_a_buffered_answer_stops_the_work(
    start_server: Start, make_model: MakeModel, kind: str
) -> None:
    """Nothing is written before the end, so no failed write tells that nobody listens."""
    model = make_model(**(SLOW | ({"prefill": 500, "prefill_s": 0.005} if kind == "prefill" else {})))
    (model.path / "chat_template.jinja").write_text(TEMPLATE)
    server = await start_server()
    path = COMPLETIONS if kind.startswith("text") else CHAT
    fields = {"tools": [TOOL]} if kind.startswith("tools") else {}
    body = body_of(path, None, max_tokens=2000, stream=kind.endswith("streamed"), **fields)
    leaving = begin(server, path, body)
    await until_state(server, HostState.BUSY)
    await leave(leaving)
    await until_state(server, HostState.READY)

    assert server.services.host.status().generation == 1
    answer = await asyncio.wait_for(server.chat(content='@stand-in {"text": ["next"], "prefill": 0}'), 2)
    assert answer["choices"][0]["message"]["content"] == "next"


async def test_a_client_that_leaves_while_its_model_loads_ends_the_load(
    start_server: Start, make_model: MakeModel
) -> None:
    make_model("slow", load_s=30)
    make_model()
    server = await start_server()
    leaving = begin(server, CHAT, body_of(CHAT, None, model="slow"))
    await until_state(server, HostState.LOADING)
    await leave(leaving)
    await until_state(server, HostState.IDLE)

    assert (await server.chat())["choices"][0]["finish_reason"] == "stop"


async def test_a_reader_that_stopped_reading_holds_nobody_up_once_it_has_left(
    start_server: Start, make_model: MakeModel
) -> None:
    """It keeps its turn until then, or for as long as `--send-timeout` says."""
    make_model(text=["x" * 1000] * 20_000)
    server = await start_server()

    with socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(lazy, ("127.0.0.1", int(server.base_url.rpartition(":")[2])))
        body = body_of(CHAT, None, max_tokens=20_000, stream=True)
        await loop.sock_sendall(lazy, posted(CHAT, body).encode())
        await until_state(server, HostState.BUSY)
        async with server.get("/health") as response:
            assert (await response.json())["state"] == "busy"

    await until(lambda: server.services.host.status().state is not HostState.BUSY)
    assert (await server.chat(content='@stand-in {"text": ["next"]}'))["choices"][0]["message"]["content"] == "next"


async def test_no_pings_when_they_are_switched_off(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["a"], prefill=30, prefill_s=0.01)
    server = await start_server(sse_ping_s=0.0)
    _, text = await begin(server, CHAT, body_of(CHAT, None, stream=True))
    assert ": ping" not in text


async def test_pings_go_on_while_a_reply_with_tools_is_held_back(start_server: Start, make_model: MakeModel) -> None:
    model = make_model(text=["a"] * 30, delay_s=0.01)
    (model.path / "chat_template.jinja").write_text(TEMPLATE)
    server = await start_server(sse_ping_s=0.05)
    _, text = await begin(server, CHAT, body_of(CHAT, None, stream=True, tools=[TOOL]))
    assert text.count(": ping\n\n") >= 2
    assert text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("sent", ["", "GET /health HT", head("GET", "/health")[:-2], head("GET", "/health")])
async def test_a_connection_without_a_whole_request_is_ended(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, sent: str
) -> None:
    monkeypatch.setattr(app_module, "KEEP_ALIVE_S", 0.2)
    server = await start_server()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.base_url.rpartition(":")[2]))
    writer.write(sent.encode())

    async with asyncio.timeout(5):
        # An answer if the request was whole, then the end.
        assert (await reader.read()).startswith(b"HTTP/1.1 200" if sent.endswith("\r\n\r\n") else b"")

    writer.close()


async def test_a_server_on_ipv6(start_server: Start, make_model: MakeModel) -> None:
    make_model(text=["six"])
    server = await start_server(host="::1")
    assert server.base_url.startswith("http://[::1]:")
    assert (await server.chat())["choices"][0]["message"]["content"] == "six"
    async with server.get("/health", headers={"Host": "evil.example"}) as response:
        assert response.status == 403


async def test_connections_that_break_under_an_answer_are_no_news(
    start_server: Start, make_model: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    """A write that fails is how the end of a client often shows; it is no fault of the server."""
    make_model(text=["x" * 2000] * 500)
    server = await start_server()
    request = posted(CHAT, body_of(CHAT, None, max_tokens=500, stream=True)).encode()

    for size in (1, 100, 10_000, 200_000):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.base_url.rpartition(":")[2]))
        # The kernel answers what still comes with a reset instead of an end.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.write(request)
        await reader.readexactly(size)
        writer.transport.abort()
        await until_state(server, HostState.READY)

    assert (await server.chat(content='@stand-in {"text": ["next"]}'))["choices"][0]["message"]["content"] == "next"
    assert [record.message for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []
    assert not any(record.exc_info for record in caplog.records)
