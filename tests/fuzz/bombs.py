"""Bodies of 10 MiB that are made to cost time, each in another place of the server. None is an honest request."""

from collections.abc import Callable, Mapping

from prism.http.body import MAX_BODY_BYTES
from tests.fuzz.valid_bodies import CHAT, COMPLETIONS, EMBEDDINGS, MODEL

_HEAD = b'{"model":"%b","messages":[{"role":"user","content":"a"}],' % MODEL.encode()
_USER = b'{"model":"%b","messages":[{"role":"user","content":"' % MODEL.encode()
_CALLS = b'{"model":"%b","messages":[{"role":"assistant","tool_calls":[' % MODEL.encode()
_TOOL = b'{"type":"function","function":{"name":"f%d","parameters":{"a":[%b1]}}}'
_ONE_CALL = b'{"function":{"name":"a","arguments":"%b"}}'

Body = Callable[[], bytes]


def _filled(head: bytes, unit: bytes, tail: bytes) -> Body:
    """Return what makes a body of the largest size: head, as many units as fit, tail."""
    return lambda: head + unit * ((MAX_BODY_BYTES - len(head) - len(tail)) // len(unit)) + tail


def _listed(head: bytes, parts: Callable[[], list[bytes]], tail: bytes) -> Body:
    return lambda: head + b",".join(parts()) + tail


# Each may only cost the reading of its bytes: it is refused, or what is in it means nothing.
REFUSED: Mapping[str, tuple[str, Body]] = {
    "stop": (CHAT, _filled(_HEAD + b'"stop":[', b'"a",', b'"a"]}')),
    "stop in three bytes each": (CHAT, _filled(_HEAD + b'"stop":[', '"日",'.encode(), b'"a"]}')),
    "prompt": (COMPLETIONS, _filled(b'{"model":"x","prompt":[', b'"ab",', b'"a"]}')),
    "input": (EMBEDDINGS, _filled(b'{"model":"x","input":[', b'"ab",', b'"a"]}')),
    "messages": (CHAT, _filled(b'{"model":"x","messages":[', b'{"role":"user"},', b'{"role":"user"}]}')),
    "content": (CHAT, _filled(_USER[:-1] + b"[", b'"ab",', b'"a"]}]}')),
    "parts": (CHAT, _filled(_USER[:-1] + b"[", b'{"type":"a"},', b'"a"]}]}')),
    "calls": (CHAT, _filled(_CALLS, b'{"function":{"name":"a"}},', b'{"function":{"name":"a"}}]}]}')),
    "tools": (CHAT, _filled(_HEAD + b'"tools":[', _TOOL % (1, b"") + b",", _TOOL % (2, b"") + b"]}")),
    "parameters": (CHAT, _filled(_HEAD + b'"tools":[' + (_TOOL % (1, b""))[:-6], b"[],", b"1]}}}]}")),
    "names": (CHAT, _filled(_HEAD, b'"":1,', b'"x":1}')),
    "one name": (CHAT, _filled(_HEAD, b'"stop":["a"],', b'"x":1}')),
    "brackets": (CHAT, _filled(_HEAD + b'"x":', b"[", b"")),
    "digits": (CHAT, _filled(_HEAD + b'"seed":', b"9", b"}")),
    "NUL at the end": (CHAT, _filled(_HEAD + b'"x":[', b"[],", rb'"\u0000"]}')),
    "NUL behind quotes": (CHAT, _filled(_HEAD + b'"x":"', rb"\"", rb'\u0000"}')),
    "half a pair at the end": (CHAT, _filled(_HEAD + b'"x":"', rb"\ud83d\ude00", rb'\ud83d"}')),
    "bad UTF-8 at the end": (CHAT, _filled(_USER, "日本".encode(), b'\xff"}]}')),
    "a role": (CHAT, _filled(b'{"model":"x","messages":[{"role":"', b"x", b'"}]}')),
}
# Each is valid as far as the server can say before the model has it.
TAKEN: Mapping[str, tuple[str, Body]] = {
    "ignored lists": (CHAT, _filled(_HEAD + b'"x":[', b"[],", b'1],"max_tokens":1}')),
    "ignored objects": (CHAT, _filled(_HEAD + b'"x":[', b"{},", b'1],"max_tokens":1}')),
    "a text": (CHAT, _filled(_USER, b"hello ", b'"}],"max_tokens":1}')),
    "a text of escapes": (CHAT, _filled(_USER, rb"\n", b'"}],"max_tokens":1}')),
    "emoji": (CHAT, _filled(_USER, "😀a".encode(), b'"}],"max_tokens":1}')),
    "quotes": (CHAT, _filled(_USER, rb"\"", b'"}],"max_tokens":1}')),
    "control tokens": (CHAT, _filled(_USER, b"<|im_end|>", b'"}],"max_tokens":1}')),
    "beginnings of control tokens": (CHAT, _filled(_USER, b"<|im_", b'"}],"max_tokens":1}')),
    "private characters": (
        CHAT,
        _filled(_USER, b"a", "".join(map(chr, range(0xE000, 0xF900))).encode() + b'<|im_end|>"}],"max_tokens":1}'),
    ),
    "2,048 messages": (
        CHAT,
        _listed(
            _USER[: _USER.index(b"[") + 1],
            lambda: [b'{"role":"user","content":"%b"}' % (b"<|im_end|>" * 500)] * 2_048,
            b'],"max_tokens":1}',
        ),
    ),
    "8,192 calls": (
        CHAT,
        _listed(_CALLS, lambda: [_ONE_CALL % (rb"{\"a\":[" + b"[]," * 17 + b"1]}")] * 8_192, b']}],"max_tokens":1}'),
    ),
    "one call": (
        CHAT,
        _listed(_CALLS, lambda: [_ONE_CALL % (b"[" + b"[]," * 174_000 + b"1]")], b']}],"max_tokens":1}'),
    ),
    "schemas": (
        CHAT,
        _listed(_HEAD + b'"tools":[', lambda: [_TOOL % (n, b"[]," * 1_300) for n in range(128)], b'],"max_tokens":1}'),
    ),
    "a prompt": (COMPLETIONS, _filled(b'{"model":"%b","max_tokens":1,"prompt":"' % MODEL.encode(), b"hello ", b'"}')),
}
BOMBS: Mapping[str, tuple[str, Body]] = {**REFUSED, **TAKEN}
