"""Bytes as a server might send them, right and wrong, for the tests of the judge."""

import json
from typing import Any

DONE = "data: [DONE]\n\n"


def http(body: bytes, status: int = 200, kind: str = "application/json") -> bytes:
    """An answer with a length."""
    head = f"HTTP/1.1 {status} Something\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def chunked(*parts: str, is_ended: bool = True) -> bytes:
    """A stream of events in chunks."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part.encode()), part.encode()) for part in parts)
    return head + chunks + (b"0\r\n\r\n" if is_ended else b"")


def event(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"


def text(content: str, number: str = "chatcmpl-1") -> str:
    """A chunk with text."""
    return event({"id": number, "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}]})


def finish(reason: str = "stop", number: str = "chatcmpl-1") -> str:
    """The chunk with the finish reason."""
    return event({"id": number, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})


def usage(number: str = "chatcmpl-1") -> str:
    """A chunk without choices, which may follow the finish reason."""
    return event({"id": number, "choices": [], "usage": {"total_tokens": 3}})


def error(code: str = "engine_crashed") -> str:
    """An error event."""
    return event({"error": {"message": "m", "type": "server_error", "param": None, "code": code}})


def completion(content: str = "hello", reason: str | None = "stop") -> bytes:
    """The body of a whole answer."""
    message = {"role": "assistant", "content": content}
    return json.dumps({"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}).encode()


def refusal(code: str | None = "server_busy") -> bytes:
    """The body of an error."""
    return json.dumps({"error": {"message": "m", "type": "server_error", "param": None, "code": code}}).encode()
