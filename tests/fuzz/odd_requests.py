"""Requests around the bodies: a right one, or one whose headers, method or framing are damaged. Each gets exactly one first answer."""

from dataclasses import dataclass
from random import Random

from tests.raw_http import head

_HEADERS = (
    "Content-Type: text/plain",
    "Content-Type: application/json; charset=utf-16",
    "Content-Type: multipart/form-data",
    "Content-Type: \x7f;;;=",
    "Content-Encoding: gzip",
    "Content-Encoding: identity",
    "Content-Encoding: br, gzip",
    "Accept: text/html;q=2",
    "Accept-Encoding: gzip, br",
    "Authorization: Bearer",
    "Authorization: Basic Zm9vOmJhcg==",
    "Authorization: Bearer " + "x" * 5_000,
    "Origin: http://evil.example",
    "Origin: null",
    "Origin: http://localhost",
    "Expect: 200-maybe",
    "X-Request-Id: " + "i" * 300,
    "X-Request-Id: \x01",
    "X-Forwarded-For: 1.2.3.4",
    "Cookie: " + "c" * 8_000,
    "X-Long: " + "l" * 9_000,
    "Connection: upgrade",
    "Upgrade: websocket",
    "Upgrade: h2c",
    "Range: bytes=0-1",
    "If-None-Match: *",
    "Content-Length: 5",
    "Content-Length: -1",
    "Content-Length: +5",
    "Content-Length: 1e3",
    "Content-Length: 99999999999999999999",
    "Transfer-Encoding: gzip",
    "Transfer-Encoding: chunked, identity",
    "No colon at all",
    "Bad name: x",
    "X-\u00e9: x",
    ": no name",
    " folded: x",
    "X-Null: a\x00b",
    "X-Carriage: a\rb",
)
_HOSTS = (
    "Host: evil.example",
    "Host: ",
    "Host: localhost:99999",
    "Host: [::1",
    "Host: localhost\r\nHost: localhost",
    "Host: a b",
)
_METHODS = ("GET", "PUT", "DELETE", "PATCH", "post", "OPTIONS", "TRACE", "CONNECT", "P\x00ST", "X" * 100)
_TARGETS = (
    "/",
    "//",
    "/v1",
    "/v1/chat/completions/../unload",
    "/v1/chat/completions?x=%00",
    "/%2e%2e/",
    "*",
    "http://evil.example/v1/models",
    "/v1/models/%ff%00",
)


@dataclass(frozen=True, slots=True)
class Attack:
    """One request. body: as it was damaged, without framing. data: all that is sent. is_framed_right: only the body may be at fault."""

    path: str
    body: bytes
    data: bytes
    is_framed_right: bool


def right_request(path: str, body: bytes) -> Attack:
    """Return the body in a request that is right."""
    return Attack(path, body, head("POST", path, f"Content-Length: {len(body)}").encode() + body, is_framed_right=True)


def odd_request(path: str, body: bytes, random: Random) -> Attack:
    """Return the body in a request that is damaged around it."""
    method, target, headers = "POST", path, [f"Content-Length: {len(body)}"]
    framed = body

    match random.choice(("header", "header", "headers", "host", "method", "target", "chunked", "version", "short")):
        case "header":
            headers.insert(random.randint(0, 1), random.choice(_HEADERS))
        case "headers":
            headers = [*random.choices(_HEADERS, k=random.randint(2, 60)), *headers]
        case "host":
            headers.append(random.choice(_HOSTS))
        case "method":
            method = random.choice(_METHODS)
        case "target":
            target = random.choice(_TARGETS)
        case "chunked":
            headers = ["Transfer-Encoding: chunked"]
            framed = _chunked(body, random)
        case "version":
            return Attack(path, body, _with_version(target, framed, random), is_framed_right=False)
        case _:
            headers = [f"Content-Length: {random.randint(0, len(body))}"]

    data = head(method, target, *headers).encode("latin-1") + framed
    return Attack(path, body, data, is_framed_right=False)


def _chunked(body: bytes, random: Random) -> bytes:
    cut = random.randint(0, len(body))
    parts = [part for part in (body[:cut], body[cut:]) if part]
    chunks = b"".join(b"%x%b\r\n%b\r\n" % (len(part), random.choice((b"", b"", b";x=y")), part) for part in parts)
    return random.choice(
        (chunks + b"0\r\n\r\n", chunks + b"0\r\nTrailer: x\r\n\r\n", chunks + b"zz\r\n\r\n", b"-1\r\n" + chunks)
    )


def _with_version(target: str, body: bytes, random: Random) -> bytes:
    version = random.choice(("1.0", "0.9", "2.0", "1.2", "11", "x"))
    return head("POST", target, f"Content-Length: {len(body)}", version=version).encode() + body
