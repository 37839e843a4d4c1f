"""A client of one running server, for the cases of the contract: sends bodies that are nearly right, and reads answers strictly."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.raw_http import Reply, send

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"
MODEL = "stand-in"
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
OTHER_TOOL = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}

# A value that takes a field out of a body.
ABSENT = object()

_SMALLEST: Mapping[str, Mapping[str, object]] = {
    CHAT: {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]},
    COMPLETIONS: {"model": MODEL, "prompt": "hello"},
    EMBEDDINGS: {"model": MODEL, "input": "hello"},
}


@dataclass(frozen=True, slots=True)
class Client:
    """Talks to the server at base_url, one connection for each request."""

    base_url: str

    def get(self, path: str, *headers: str) -> Reply:
        return send(self.base_url, "GET", path, *headers)

    def post(self, path: str, body: object = b"", *headers: str) -> Reply:
        """Post bytes and text as they are, all else as JSON."""
        content = body if isinstance(body, bytes | str) else json.dumps(body)
        return send(self.base_url, "POST", path, *headers, body=content)

    def ask(self, path: str = CHAT, script: Mapping[str, object] | None = None, **fields: Any) -> Reply:
        """Post the smallest valid body of an endpoint with these fields put in. script: how the stand-in behaves."""
        return self.post(path, body_of(path, script, **fields))

    def answer(self, path: str = CHAT, script: Mapping[str, object] | None = None, **fields: Any) -> Any:
        """Return the decoded answer of a request that must succeed."""
        reply = self.ask(path, script, **fields)
        assert reply.status == 200, reply
        return reply.json

    def choice(self, script: Mapping[str, object] | None = None, **fields: Any) -> Any:
        """Return the only choice of a chat."""
        (choice,) = self.answer(CHAT, script, **fields)["choices"]
        return choice

    def events(self, path: str = CHAT, script: Mapping[str, object] | None = None, **fields: Any) -> list[Any]:
        """Return the decoded events of a stream, which must end with the text "[DONE]"."""
        reply = self.ask(path, script, **{"stream": True, **fields})
        assert reply.status == 200, reply
        blocks = [block for block in reply.body.decode().split("\n\n") if block and not block.startswith(":")]
        assert all(block.startswith("data: ") for block in blocks), blocks
        assert blocks[-1] == "data: [DONE]", blocks
        return [*(json.loads(block[6:]) for block in blocks[:-1]), "[DONE]"]

    def told(self, path: str = CHAT, **fields: Any) -> Any:
        """Return what the worker was asked: its prompt, max_tokens and sampling."""
        choice = self.answer(path, {"echo": True}, **fields)["choices"][0]
        return json.loads(base64.b64decode(choice["text"] if path == COMPLETIONS else choice["message"]["content"]))


def body_of(path: str, script: Mapping[str, object] | None, **fields: Any) -> dict[str, object]:
    """Return the smallest valid body with these fields put in, or taken out where they are ABSENT."""
    body = {name: value for name, value in {**_SMALLEST[path], **fields}.items() if value is not ABSENT}

    if script is None:
        return body

    line = f"\n@stand-in {json.dumps(script)}"

    if path == COMPLETIONS:
        return body | {"prompt": f"{body['prompt']}{line}"}

    messages = body["messages"]
    assert isinstance(messages, list)
    return body | {"messages": [*messages, {"role": "user", "content": line}]}


Check = Callable[[Client], None]


@dataclass(frozen=True, slots=True)
class Case:
    """One proof of one row.

    row: its id in `tests.contract.rows`. says: what the row says about this case, in our own words.
    """

    row: str
    says: str
    check: Check


def refused(
    status: int, code: str | None = None, param: str | None = None, path: str = CHAT, says: str = "", **fields: Any
) -> Check:
    """Make a check: the smallest body with these fields is refused so, streamed or not. says: a part of the message."""

    def check(client: Client) -> None:
        for stream in (False, True) if path != EMBEDDINGS else (False,):
            reply = client.ask(path, **({"stream": stream} | fields if path != EMBEDDINGS else fields))
            _assert_error(reply, status, code, param, says)

    return check


def refused_body(body: bytes | str, param: str | None = None, path: str = CHAT, says: str = "") -> Check:
    """Make a check: these bytes are a 400."""
    return lambda client: _assert_error(client.post(path, body), 400, None, param, says)


def taken(path: str = CHAT, **fields: Any) -> Check:
    """Make a check: the smallest body with these fields is answered."""

    def check(client: Client) -> None:
        client.answer(path, **fields)

    return check


def told(expected: Mapping[str, object], path: str = CHAT, **fields: Any) -> Check:
    """Make a check: with these fields the worker is told so. expected: of max_tokens and of the sampling."""

    def check(client: Client) -> None:
        asked = client.told(path, **fields)
        values = {"max_tokens": asked["max_tokens"], **asked["sampling"]}
        assert {name: values[name] for name in expected} == expected

    return check


def _assert_error(reply: Reply, status: int, code: str | None, param: str | None, says: str) -> None:
    assert reply.status == status, reply
    error = reply.error
    assert (error["code"], error["param"]) == (code, param), reply
    assert says in error["message"], reply
