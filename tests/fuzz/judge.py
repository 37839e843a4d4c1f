"""Says what is wrong with an answer to a damaged request; None when it is as documented.

Knows nothing of how the server reads bodies: what is no JSON is told by Python's own parser.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from prism.api.errors import ERROR_TABLE, ErrorCode, ErrorEnvelope, ErrorObject, error_type
from prism.api.responses import ChatChunk, ChatCompletion, Completion
from prism.api.routes import ERRORS_OF_EVERY_ROUTE, ROUTES
from prism.api.server_responses import Unloaded
from tests.fuzz.odd_requests import Attack
from tests.fuzz.valid_bodies import CHAT, COMPLETIONS, DRAIN, UNLOAD
from tests.raw_http import Reply

_ANSWERS: Final[Mapping[str, type[msgspec.Struct]]] = {CHAT: ChatCompletion, COMPLETIONS: Completion, UNLOAD: Unloaded}
_EVENTS: Final[Mapping[str, type[msgspec.Struct]]] = {CHAT: ChatChunk, COMPLETIONS: Completion}
_DOCUMENTED: Final[Mapping[str, frozenset[int]]] = {
    route.path: frozenset((*route.errors, *ERRORS_OF_EVERY_ROUTE)) for route in ROUTES if route.request is not None
}
# Of a request that is not even HTTP of ours: what it led to is anybody's guess, but never a fault of the server.
_WITH_ODD_FRAMES: Final = frozenset((400, 403, 404, 405, 408, 413, 415, 417))
_FAULTS_OF_NOBODY: Final = frozenset((ErrorCode.SERVER_BUSY, ErrorCode.INSUFFICIENT_RESOURCES))


def complaint_about(attack: Attack, reply: Reply) -> str | None:
    """Return one sentence, or None."""
    try:
        _judge(attack, reply)
    except (AssertionError, msgspec.DecodeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"

    return None


def is_no_json(body: bytes) -> bool:
    """Say whether Python's parser is sure that this is not JSON in UTF-8."""
    try:
        json.loads(body.decode(), parse_constant=_refuse, parse_int=lambda _: 0, parse_float=lambda _: 0)
    except RecursionError:
        return False
    except ValueError:
        return True

    return False


def changes_the_server(attack: Attack) -> bool:
    """Say whether an answer other than an error would end the worker, or the server."""
    if attack.path not in (UNLOAD, DRAIN):
        return False

    if not attack.is_framed_right:
        return True

    try:
        body = json.loads(attack.body or b"{}")
    except (ValueError, RecursionError):
        return False

    return isinstance(body, dict) and (attack.path == UNLOAD or _is_wait(body.get("timeout_ms")))


def _is_bad(attack: Attack) -> bool:
    """Say whether the body is surely no JSON where JSON has to be."""
    is_optional = attack.path in (UNLOAD, DRAIN)
    return is_no_json(attack.body) and not (is_optional and not attack.body)


def _is_wait(value: object) -> bool:
    return value is None or (type(value) is int and value >= 0)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _judge(attack: Attack, reply: Reply) -> None:
    assert reply.headers.get("server") == "prism", "an answer of somebody else"

    if reply.status < 300:
        _judge_success(attack, reply)
    else:
        _judge_error(attack, reply)


def _judge_success(attack: Attack, reply: Reply) -> None:
    if not attack.is_framed_right:
        return

    assert reply.status == 200, reply.status
    assert attack.path in _ANSWERS, "nothing can be answered here"
    assert not _is_bad(attack), "what is no JSON was answered"

    if reply.headers["content-type"].startswith("text/event-stream"):
        _judge_events(_EVENTS[attack.path], reply.body)
    else:
        assert reply.headers["content-type"].startswith("application/json"), reply.headers
        msgspec.json.decode(reply.body, type=_ANSWERS[attack.path])


def _judge_events(event: type[msgspec.Struct], body: bytes) -> None:
    blocks = [block for block in body.decode().split("\n\n") if block]
    assert blocks[-1] == "data: [DONE]", "a stream without its end"

    for block in blocks[:-1]:
        assert block.startswith("data: "), block[:200]
        msgspec.json.decode(block[6:], type=event)


def _judge_error(attack: Attack, reply: Reply) -> None:
    assert reply.headers["content-type"].startswith("application/json"), reply.headers
    error = msgspec.json.decode(reply.body, type=ErrorEnvelope).error
    documented = _DOCUMENTED[attack.path] if attack.is_framed_right else _WITH_ODD_FRAMES
    assert reply.status in documented, reply.status
    assert error.message, "an error that says nothing"
    assert error.type == error_type(reply.status), error.type
    assert error.code is None or ERROR_TABLE[ErrorCode(error.code)].status == reply.status, error.code

    if reply.status >= 500:
        _judge_fault(attack, error)

    if attack.is_framed_right and _is_bad(attack):
        assert reply.status == 400, "what is no JSON was refused for another reason"


def _judge_fault(attack: Attack, error: ErrorObject) -> None:
    """Only what the body asks for, and what the machine cannot help, may end like this."""
    if error.code == ErrorCode.BACKEND_UNAVAILABLE:
        assert b"ollama:" in attack.body.lower(), "nobody asked for Ollama"
        return

    assert error.code in _FAULTS_OF_NOBODY, f"a fault of the server: {error.message}"


def code_of(reply: Reply) -> str:
    """Return the code of an error, "-" when it has none."""
    error: Any = json.loads(reply.body).get("error", {}) if reply.status >= 300 and reply.body else {}
    return error.get("code") or "-"
