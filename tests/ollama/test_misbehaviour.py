"""What daemons do that they should not: each is bounded and told, with a status before the first byte, as an event and [DONE] after it."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from prism.ollama.bounds import OllamaBounds
from tests.ollama.conftest import QUICK, StartBeside
from tests.ollama.fake_daemon import FakeDaemon, Open, Step, cut, fault, hang, last, line
from tests.whole.conftest import Server, content_of, events_of

GARBAGE = b"<html>not at all</html>\n"
GIANT = line("x" * QUICK.line_bytes)
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "/v1/completions": {"prompt": "hello"},
}


async def trickle(answer: Open) -> None:
    """Send one byte after the other, and never a whole line."""
    with contextlib.suppress(ConnectionError):
        while True:
            await answer.response.write(b" ")
            await asyncio.sleep(0.02)


async def flood(answer: Open) -> None:
    """Never end."""
    while True:
        await answer.response.write(line("x" * 1000))


async def ask(server: Server, path: str, *, stream: bool, model: str = "ollama:m") -> tuple[int, Any]:
    """Return status and decoded answer, or the events of a stream."""
    async with server.post(path, {"model": model, "stream": stream, **ROUTES[path]}) as response:
        text = await response.text()
        is_stream = response.content_type == "text/event-stream"
        return response.status, events_of(text) if is_stream else await response.json()


FAULTS_AT_ANY_TIME: dict[str, Sequence[Step]] = {
    "a line that is an error": (fault("llama runner process has terminated: exit status 2"),),
    "an error that is an object": (fault({"message": "out of memory"}),),
    "an error without words": (fault({}),),
    "a connection that is cut": (cut,),
    "an end without a last line": (),
    "garbage": (GARBAGE,),
    "JSON of another shape": (b'{"message": "text"}\n',),
    "text that is no UTF-8": (b'{"message": {"content": "\xff"}}\n',),
    "a giant line": (GIANT,),
    "a giant line without an end": (GIANT[:-1] * 3,),
    "silence": (hang,),
    "a trickle": (trickle,),
    "brackets without end": (b"[" * 4000 + b"\n",),
}


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("steps", FAULTS_AT_ANY_TIME.values(), ids=FAULTS_AT_ANY_TIME.keys())
async def test_before_the_first_byte_it_is_a_502(
    start_beside: StartBeside, daemon: FakeDaemon, steps: Sequence[Step], path: str
) -> None:
    """D-06, D-07."""
    daemon.chats["m"] = steps
    server = await start_beside(bounds=QUICK)

    for stream in (False, True):
        status, answer = await ask(server, path, stream=stream)
        assert (status, answer["error"]["code"]) == (502, "backend_unavailable"), answer
        assert answer["error"]["type"] == "server_error"

    # It costs the next request nothing.
    daemon.chats["m"] = (line("x"), last())
    assert (await ask(server, path, stream=True))[0] == 200


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("steps", FAULTS_AT_ANY_TIME.values(), ids=FAULTS_AT_ANY_TIME.keys())
async def test_after_it_it_is_one_event_and_the_end(
    start_beside: StartBeside, daemon: FakeDaemon, steps: Sequence[Step], path: str
) -> None:
    daemon.chats["m"] = (line("so far"), *steps)
    status, events = await ask(await start_beside(bounds=QUICK), path, stream=True)
    assert status == 200
    assert (events[-2]["error"]["code"], events[-1]) == ("backend_unavailable", "[DONE]")
    assert [event for event in events[:-2] if "error" in event] == []
    assert [event for event in events[:-2] if event["choices"][0]["finish_reason"]] == []
    texts = [event["choices"][0].get("text", "") for event in events[:-2]]
    assert (content_of(events[:-1]) if path == "/v1/chat/completions" else "".join(texts)) == "so far"


@pytest.mark.parametrize("so_far", range(4))
async def test_a_stream_that_is_cut_after_any_number_of_lines(
    start_beside: StartBeside, daemon: FakeDaemon, so_far: int
) -> None:
    """F36."""
    daemon.chats["m"] = (*map(line, "abc"[:so_far]), cut)
    server = await start_beside()
    status, answer = await ask(server, "/v1/chat/completions", stream=True)
    assert status == (200 if so_far else 502)
    error = answer[-2]["error"] if so_far else answer["error"]
    assert error["code"] == "backend_unavailable"


async def test_an_endless_answer_has_an_end(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    daemon.chats["m"] = (line("x"), flood)
    status, events = await ask(await start_beside(bounds=QUICK), "/v1/chat/completions", stream=True)
    assert status == 200
    assert "more than 524288 bytes" in events[-2]["error"]["message"]
    await asyncio.wait_for(daemon.left.wait(), 5)


@pytest.mark.parametrize(
    ("status", "error", "expected", "code"),
    [
        (404, "model 'm' not found", 404, "model_not_found"),
        (400, "invalid options: num_predict", 400, None),
        (400, '"m" does not support chat', 400, None),
        (400, "registry.ollama.ai/library/m:latest does not support tools", 400, "tools_not_supported"),
        (500, "llama runner process has terminated", 502, "backend_unavailable"),
        (503, "server busy, please try again. maximum pending requests exceeded", 502, "backend_unavailable"),
        (401, "unauthorized", 502, "backend_unavailable"),
        (429, "too many", 502, "backend_unavailable"),
    ],
)
async def test_a_refusal_is_told_in_the_daemons_words(
    start_beside: StartBeside, daemon: FakeDaemon, status: int, error: str, expected: int, code: str | None
) -> None:
    """D-08: every refusal was a 502 without a word of the daemon."""
    daemon.refusals["m"] = (status, error)
    server = await start_beside()

    for path in ROUTES:
        for stream in (False, True):
            got, answer = await ask(server, path, stream=stream)
            assert (got, answer["error"]["code"]) == (expected, code)
            assert error in answer["error"]["message"]


async def test_a_busy_daemon_says_when_to_come_back(start_beside: StartBeside, daemon: FakeDaemon) -> None:
    daemon.refusals["m"] = (503, "server busy")
    server = await start_beside()

    async with server.post("/v1/completions", {"model": "ollama:m", "prompt": "x"}) as response:
        assert (response.status, response.headers["Retry-After"]) == (502, "30")


class RawDaemon:
    """A listener that answers every connection with the same bytes, and keeps it open or not."""

    def __init__(self, answer: bytes, *, keeps_open: bool) -> None:
        self._answer = answer
        self._keeps_open = keeps_open
        self.requests: list[bytes] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(self._answer)
            await writer.drain()

            while self._keeps_open and await reader.read(65_536):
                pass

        writer.close()


def http(status: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


RAW_FAULTS = {
    "accepts and says nothing": RawDaemon(b"", keeps_open=True),
    "accepts and closes": RawDaemon(b"", keeps_open=False),
    "speaks no HTTP": RawDaemon(b"SSH-2.0-OpenSSH_9.2\r\n", keeps_open=True),
    "redirects": RawDaemon(http("307 Temporary Redirect", b"", "Location: http://127.0.0.1:1/"), keeps_open=True),
    "moves for ever": RawDaemon(http("301 Moved Permanently", b"", "Location: /api/chat"), keeps_open=True),
    "a page that is no answer": RawDaemon(http("404 Not Found", b"<h1>nginx</h1>"), keeps_open=True),
    "no content": RawDaemon(http("204 No Content"), keeps_open=True),
    "a compressed answer": RawDaemon(http("200 OK", b"\x1f\x8b", "Content-Encoding: gzip"), keeps_open=True),
    "a giant header": RawDaemon(b"HTTP/1.1 200 OK\r\nX-Big: " + b"x" * 100_000 + b"\r\n\r\n", keeps_open=True),
    "a giant error": RawDaemon(b"HTTP/1.1 500 No\r\n\r\n" + b"x" * 200_000, keeps_open=False),
    "a body that is shorter than told": RawDaemon(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}", keeps_open=False),
    "chunks that are none": RawDaemon(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", keeps_open=True),
}


@pytest.mark.parametrize("raw", RAW_FAULTS.values(), ids=RAW_FAULTS.keys())
async def test_what_is_no_daemon_is_a_502_on_every_route(start_beside: StartBeside, raw: RawDaemon) -> None:
    """F35, F37."""
    async with raw.running() as url:
        server = await start_beside(bounds=QUICK, ollama_url=url)
        began = time.monotonic()

        for path in ROUTES:
            status, answer = await ask(server, path, stream=True)
            assert (status, answer["error"]["code"]) == (502, "backend_unavailable"), answer

        async with server.post("/v1/embeddings", {"model": "ollama:m", "input": "x"}) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (502, "backend_unavailable")

        async with server.get("/v1/models") as response:
            assert (await response.json())["data"] == []

        async with server.get("/v1/models/ollama:m") as response:
            assert response.status == 502

        assert time.monotonic() - began < 10

    # A redirect is not followed, and no credentials are ever sent along.
    assert all(b"authorization" not in request.lower() for request in raw.requests)


async def test_no_key_of_a_client_reaches_the_daemon(start_beside: StartBeside) -> None:
    raw = RawDaemon(http("200 OK", line("x") + last()), keeps_open=False)

    async with raw.running() as url:
        server = await start_beside(ollama_url=url, api_keys=("the-key",))
        headers = {"Authorization": "Bearer the-key", "Cookie": "a=b", "X-Api-Key": "the-key"}

        for path in ROUTES:
            async with server.post(path, {"model": "ollama:m", **ROUTES[path]}, headers=headers) as response:
                assert response.status == 200

    assert len(raw.requests) == 2

    for request in raw.requests:
        assert b"the-key" not in request
        assert b"cookie" not in request.lower()


async def test_proxies_of_the_environment_are_not_used(
    start_beside: StartBeside, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    daemon.chats["m"] = (line("x"), last())
    assert (await ask(await start_beside(), "/v1/completions", stream=False))[0] == 200


@pytest.fixture
def closed_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


async def test_a_daemon_that_is_missing_is_a_502_at_once(start_beside: StartBeside, closed_port: int) -> None:
    server = await start_beside(ollama_url=f"http://127.0.0.1:{closed_port}")
    began = time.monotonic()
    status, answer = await ask(server, "/v1/chat/completions", stream=True)
    assert (status, answer["error"]["code"]) == (502, "backend_unavailable")
    assert str(closed_port) in answer["error"]["message"]
    assert time.monotonic() - began < 2


@contextlib.contextmanager
def black_hole() -> Any:
    """Give the port of a listener whose queue is full: a connection to it is never made and never refused."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)

        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())

        yield listener.getsockname()[1]


async def test_a_daemon_that_cannot_be_reached_costs_two_seconds(start_beside: StartBeside) -> None:
    """F35: a black hole, in which connections are neither made nor refused."""
    with black_hole() as port:
        server = await start_beside(ollama_url=f"http://127.0.0.1:{port}")
        began = time.monotonic()
        status, answer = await ask(server, "/v1/chat/completions", stream=False)
        assert (status, answer["error"]["code"]) == (502, "backend_unavailable")
        assert OllamaBounds().connect_s - 0.1 < time.monotonic() - began < 4
