"""Bodies that are large, chunked, compressed, slow, or made to cost time."""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable

import pytest

from prism.http import body as body_module
from prism.http import body_room
from prism.http.body import MAX_BODY_BYTES
from supervisor.settings import ModelRef
from tests.contract.client import CHAT, COMPLETIONS, EMBEDDINGS, Client, body_of
from tests.contract.waiting import until
from tests.raw_http import Reply, Wire, head, send_raw
from tests.whole.conftest import Start

SMALL = b'{"model": "stand-in", "messages": [{"role": "user", "content": "x"}]}'
BODY_PATHS = (CHAT, COMPLETIONS, EMBEDDINGS, "/v1/unload", "/v1/drain")
# While a body is decoded nothing else can be answered. It is to stay under 100 ms; a busy machine of tests gets more.
BOUND_S = 0.3


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))


def test_chunks_are_a_body_like_any_other(served: Client) -> None:
    for parts in ((SMALL,), (SMALL[:1], SMALL[1:20], SMALL[20:]), tuple(SMALL[n : n + 1] for n in range(len(SMALL)))):
        request = head("POST", CHAT, "Transfer-Encoding: chunked").encode() + chunked(*parts)
        assert send_raw(served.base_url, request).status == 200


def test_chunks_past_the_limit_are_refused(served: Client) -> None:
    part = b" " * (1 << 20)
    request = head("POST", CHAT, "Transfer-Encoding: chunked").encode() + chunked(*[part] * 11)
    assert send_raw(served.base_url, request).error["code"] == "body_too_large"


@pytest.mark.parametrize("size", [MAX_BODY_BYTES + 1, 3 * MAX_BODY_BYTES])
def test_one_who_sends_too_much_can_read_the_answer(served: Client, size: int) -> None:
    """A connection that is reset under the sender would hide it."""
    reply = served.post(CHAT, b" " * size)
    assert (reply.status, reply.error["code"]) == (413, "body_too_large")


def test_a_client_that_asks_first_is_told_before_it_sends(served: Client) -> None:
    with Wire(served.base_url) as wire:
        wire.send(head("POST", CHAT, f"Content-Length: {MAX_BODY_BYTES + 1}", "Expect: 100-continue"))
        assert wire.reply().status == 413

    with Wire(served.base_url) as wire:
        wire.send(head("POST", CHAT, f"Content-Length: {len(SMALL)}", "Expect: 100-continue"))
        assert wire.reply().status == 100
        wire.send(SMALL)
        assert wire.reply().status == 200


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "identity, gzip", "GZIP"])
def test_a_compressed_body_is_refused(served: Client, encoding: str) -> None:
    for path in BODY_PATHS:
        reply = served.post(path, b"\x1f\x8b" + b"x" * 20, f"Content-Encoding: {encoding}")
        assert (reply.status, reply.error["code"]) == (415, "unsupported_media_type")


def test_an_encoding_that_is_none_is_taken(served: Client) -> None:
    assert served.post(CHAT, SMALL, "Content-Encoding: identity").status == 200
    assert served.post(CHAT, SMALL, "Content-Encoding: identity", "Content-Encoding: gzip").status == 415


async def test_a_body_that_does_not_come_is_a_408(
    start_server: Start, make_model: Callable[..., ModelRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_module, "BODY_TIMEOUT_S", 0.1)
    make_model()
    server = await start_server()

    def send_slowly(path: str) -> tuple[Reply, bool]:
        with Wire(server.base_url) as wire:
            wire.send(head("POST", path, "Content-Length: 100") + '{"model"')
            reply = wire.reply()
            # What may still come of the body cannot be told from a next request.
            return reply, reply.headers["connection"] == "close"

    for path in BODY_PATHS:
        reply, is_closing = await asyncio.to_thread(send_slowly, path)
        assert (reply.status, reply.error["code"]) == (408, "request_timeout")
        assert is_closing


async def test_one_who_goes_on_slowly_after_a_408_is_not_listened_to(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each connection would be held for ten seconds more than its body has."""
    monkeypatch.setattr(body_module, "BODY_TIMEOUT_S", 0.1)
    server = await start_server()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.base_url.rpartition(":")[2]))
    writer.write((head("POST", CHAT, "Content-Length: 100000") + "{").encode())
    begun_at = time.monotonic()
    assert (await reader.readuntil(b"}}")).startswith(b"HTTP/1.1 408 ")

    rest = asyncio.create_task(reader.read())

    while not rest.done():
        writer.write(b" ")
        await asyncio.wait([rest], timeout=0.05)

    with contextlib.suppress(ConnectionError):
        assert await rest == b""

    assert time.monotonic() - begun_at < 5
    writer.close()


BOMBS: dict[str, Callable[[], bytes]] = {
    "brackets": lambda: b'{"model":"x","messages":[],"x":' + b"[" * 10_000_000,
    "brackets that close": lambda: b'{"x":' + b"[" * 5_000_000 + b"]" * 5_000_000 + b"}",
    "messages": lambda: b'{"model":"x","messages":[' + b'{"role":"user"},' * 600_000 + b'{"role":"user"}]}',
    "unknown keys": lambda: b"{" + b",".join(b'"k%d":{"a":[1,2]}' % n for n in range(450_000)) + b"}",
    "tools": lambda: (
        b'{"model":"x","tools":[{"type":"function","function":{"name":"f","parameters":{"a":['
        + b"{}," * 3_000_000
        + b"{}]}}}]}"
    ),
    "escapes": lambda: b'{"model":"' + b"\\u0061" * 1_600_000 + b'","messages":[]}',
    "halves of pairs": lambda: b'{"messages":[{"role":"user","content":"' + b"\\ud83d" * 1_600_000 + b'"}]}',
    "NULs": lambda: b'{"model":"x","messages":[{"role":"user","content":"' + b"\\u0000" * 1_600_000 + b'"}]}',
    "numbers": lambda: b'{"model":"x","messages":[],"seed":' + b"9" * 10_000_000 + b"}",
    "stop": lambda: b'{"model":"x","messages":[],"stop":[' + b'"a",' * 2_400_000 + b'"a"]}',
    "prompts": lambda: b'{"model":"x","prompt":[' + b'"a",' * 2_400_000 + b'"a"]}',
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_of_json_holds_nobody_up(served: Client, name: str) -> None:
    """Tried up to three times: what the body costs is there each time, what other programs cost is not."""
    body = BOMBS[name]()
    assert len(body) <= MAX_BODY_BYTES
    path = COMPLETIONS if name == "prompts" else CHAT
    assert any(_longest_silence(served, path, body) < BOUND_S for _ in range(3))


def _longest_silence(client: Client, path: str, body: bytes) -> float:
    """Send the body, which must be refused, and return how long `/health` took at most meanwhile."""
    replies: list[Reply] = []
    bomber = threading.Thread(target=lambda: replies.append(client.post(path, body)))
    bomber.start()
    longest = 0.0

    while bomber.is_alive():
        begun = time.monotonic()
        assert client.get("/health").status == 200
        longest = max(longest, time.monotonic() - begun)

    bomber.join()
    assert 400 <= replies[0].status < 500, replies[0]
    assert replies[0].error["message"]
    return longest


async def test_bodies_that_are_large_together_are_refused_and_small_ones_are_not(
    start_server: Start, make_model: Callable[..., ModelRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_model(text=["small"])
    monkeypatch.setattr(body_room, "MAX_ALL_BODIES_BYTES", 300_000)
    server = await start_server()
    port = int(server.base_url.rpartition(":")[2])
    question = json.dumps(body_of(CHAT, None) | {"padding": "x" * 250_000})
    request = head("POST", CHAT, f"Content-Length: {len(question)}") + question
    slow = await asyncio.open_connection("127.0.0.1", port)
    slow[1].write(request[:-1].encode())
    await until(lambda: server.services.bodies.held_bytes > 150_000)

    async with server.post(CHAT, question) as response:
        assert (response.status, response.headers["Retry-After"]) == (503, "30")
        assert (await response.json())["error"]["code"] == "server_busy"

    assert (await server.chat())["choices"][0]["message"]["content"] == "small"
    slow[1].write(request[-1:].encode())
    assert (await asyncio.wait_for(slow[0].readuntil(b"\r\n"), 10)) == b"HTTP/1.1 200 OK\r\n"
    slow[1].close()

    async with server.post(CHAT, question) as response:
        assert response.status == 200

    await until(lambda: server.services.bodies.held_bytes == 0)
