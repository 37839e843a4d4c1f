"""An Ollama daemon that is none: the shapes of the native API, as its public documentation has them, and any misbehaviour wanted.

Runs in the test's own event loop on a real socket, or as a process: `python -m tests.ollama.fake_daemon` prints its address.

What /api/chat does is chosen by the model, or set by a test: `FakeDaemon.chats[model]` is a list of steps, one after another.
"""

import asyncio
import base64
import contextlib
import json
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

STAMP = "2026-11-04T14:56:49.277302595-07:00"
FIGURES = {
    "total_duration": 4_883_583_458,
    "load_duration": 1_334_875,
    "prompt_eval_count": 26,
    "prompt_eval_duration": 342_546_000,
    "eval_count": 282,
    "eval_duration": 4_535_599_000,
}
# One step of an answer: bytes to send, or what to do with the open response.
Step = bytes | Callable[["Open"], Awaitable[None]]


@dataclass(slots=True)
class Open:
    """An answer that has begun."""

    request: web.Request
    response: web.StreamResponse
    daemon: "FakeDaemon"


def line(content: str = "", **message: Any) -> bytes:
    """A line of /api/chat that adds to the answer."""
    whole = {"role": "assistant", "content": content, **message}
    return _json_line({"model": "m", "created_at": STAMP, "message": whole, "done": False})


def last(reason: str | None = "stop", **figures: Any) -> bytes:
    """The last line. figures: None takes one out."""
    told = {name: value for name, value in {**FIGURES, **figures}.items() if value is not None}
    why = {} if reason is None else {"done_reason": reason}
    message = {"role": "assistant", "content": ""}
    return _json_line({"model": "m", "created_at": STAMP, "message": message, **why, "done": True, **told})


def fault(error: object) -> bytes:
    """A line that is an error."""
    return _json_line({"error": error})


def call(name: str, arguments: object, **more: Any) -> dict[str, Any]:
    """A call as lines hold them."""
    return {"function": {"name": name, "arguments": arguments, **more}}


async def cut(answer: Open) -> None:
    """End the connection in the middle."""
    assert answer.request.transport is not None
    answer.request.transport.abort()


async def hang(answer: Open) -> None:
    """Say nothing more until the other side leaves."""
    await asyncio.Event().wait()


async def wait_for_go(answer: Open) -> None:
    """Say nothing more until the test lets it go on."""
    await answer.daemon.go.wait()


async def echo(answer: Open) -> None:
    """Answer with the request itself, as JSON."""
    await answer.response.write(line(json.dumps(await answer.request.json())))


def vector(text: str) -> list[float]:
    """Four numbers that are exact in 32 bits, and differ from text to text."""
    return [len(text) / 4, -0.5, 1.0, ord(text[0]) / 128]


@dataclass(slots=True)
class FakeDaemon:
    """chats: what models answer; every other model is not found. models: installed, name to size. asked: bodies by path, as they came.

    embed: bytes of the answer of /api/embed, or None for a vector for each text; refusals: status and error by model.
    open_chats: answers that have not ended. left: set when the other side left one in the middle.
    """

    chats: dict[str, Sequence[Step]] = field(default_factory=dict)
    models: dict[str, int] = field(default_factory=dict)
    refusals: dict[str, tuple[int, object]] = field(default_factory=dict)
    embed: bytes | None = None
    pull: Sequence[Step] = ()
    tags: Callable[[], Awaitable[web.StreamResponse]] | None = None
    asked: list[tuple[str, Any]] = field(default_factory=list)
    open_chats: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    def bodies(self, path: str = "/api/chat") -> list[Any]:
        """Return what was posted to a path."""
        return [body for asked_path, body in self.asked if asked_path == path]

    def app(self) -> web.Application:
        """Return the API."""
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/api/chat", self._chat)
        app.router.add_post("/api/embed", self._embed)
        app.router.add_post("/api/pull", self._pull)
        app.router.add_get("/api/tags", self._tags)
        return app

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked.append((request.path, body))

        if (refused := self._refusal(body)) is not None:
            return refused

        return await self._answer(request, self.chats[body["model"]])

    def _refusal(self, body: Any) -> web.Response | None:
        name = body["model"]

        if name in self.refusals:
            status, error = self.refusals[name]
            return web.json_response({"error": error}, status=status)

        if body.get("think") and name.startswith("plain"):
            return web.json_response({"error": f'"{name}" does not support thinking'}, status=400)

        if isinstance(body.get("think"), str) and name.startswith("old"):
            error = "json: cannot unmarshal string into Go struct field ChatRequest.think of type bool"
            return web.json_response({"error": error}, status=400)

        if name not in self.chats:
            return web.json_response({"error": f"model '{name}' not found"}, status=404)

        return None

    async def _answer(self, request: web.Request, steps: Sequence[Step]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        self.open_chats += 1

        try:
            await response.prepare(request)

            for step in steps:
                if isinstance(step, bytes):
                    await response.write(step)
                else:
                    self.begun.set()
                    await step(Open(request, response, self))

            await response.write_eof()
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise
        finally:
            self.open_chats -= 1

        return response

    async def _embed(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked.append((request.path, body))

        if (refused := self._embed_refusal(body)) is not None:
            return refused

        if self.embed is not None:
            return web.Response(body=self.embed, content_type="application/json")

        vectors = [vector(text) for text in body["input"]]
        answer = {"model": body["model"], "embeddings": vectors, "total_duration": 1, "prompt_eval_count": 8}
        return web.json_response(answer)

    def _embed_refusal(self, body: Any) -> web.Response | None:
        if body["model"] in self.refusals:
            status, error = self.refusals[body["model"]]
            return web.json_response({"error": error}, status=status)

        if f"{body['model']}:latest" not in self.models and body["model"] not in self.models:
            return web.json_response({"error": f'model "{body["model"]}" not found, try pulling it first'}, status=404)

        return None

    async def _pull(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, await request.json()))
        return await self._answer(request, self.pull)

    async def _tags(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, None))

        if self.tags is not None:
            return await self.tags()

        return web.json_response({"models": [_tag(name, size) for name, size in self.models.items()]})


def _tag(name: str, size: int) -> dict[str, Any]:
    details = {
        "format": "gguf",
        "family": "llama",
        "families": None,
        "parameter_size": "7B",
        "quantization_level": "Q4_0",
    }
    tag = {
        "name": name,
        "model": name,
        "modified_at": STAMP,
        "size": size,
        "digest": "9f438cb9cd58",
        "details": details,
    }
    return tag


def _json_line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def floats_of(text: str) -> list[float]:
    """Decode base64 of little-endian 32-bit floats."""
    raw = base64.b64decode(text, validate=True)
    return list(struct.unpack(f"<{len(raw) // 4}f", raw))


@contextlib.asynccontextmanager
async def running(daemon: FakeDaemon) -> AsyncIterator[FakeDaemon]:
    """Serve the daemon on a free port; its address is in `url`. Handlers are cancelled when the other side leaves, as Go's are."""
    runner = web.AppRunner(daemon.app(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    daemon.url = f"http://127.0.0.1:{runner.addresses[0][1]}"

    try:
        yield daemon
    finally:
        await runner.cleanup()


def standard_daemon() -> FakeDaemon:
    """A daemon with models that clients and the contract are run against."""
    weather = call("get_weather", {"city": "Paris"})
    return FakeDaemon(
        models={"talks:latest": 3 << 20, "embeds:latest": 1 << 19, "stand-in": 7, "chats-only": 0},
        chats={
            "talks": (line("Hel"), line("lo"), line("\n        world"), last()),
            "talks:latest": (line("Hel"), line("lo"), line("\n        world"), last()),
            "echoes": (echo, last()),
            "thinks": (line(thinking="hm "), line(thinking="well"), line("Yes"), last()),
            "calls": (line("Let me look."), line(tool_calls=[weather, weather]), last()),
            "silent-on-counts": (line("x"), last(prompt_eval_count=None, eval_count=None)),
            "long": (line("x"), last("length")),
            "breaks": (line("x"), fault("llama runner process has terminated: exit status 2")),
        },
        refusals={
            "chats-only": (400, '"chats-only" does not support embeddings'),
            "no-tools": (400, "registry.ollama.ai/library/no-tools:latest does not support tools"),
            "fails": (500, "llama runner process has terminated: exit status 2"),
        },
    )


async def _serve() -> None:
    async with running(standard_daemon()) as daemon:
        sys.stdout.write(f"{daemon.url}\n")
        sys.stdout.flush()
        # Its owner ends it by closing its standard input.
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
