"""Which pages of browsers may use the server, and what a browser has to read on every answer for that."""

from itertools import product

import pytest

from tests.contract.client import CHAT, COMPLETIONS, MODEL, Client
from tests.contract.conftest import KEYS, PAGE
from tests.raw_http import Reply, send, send_raw

FOREIGN = (
    "http://evil.example",
    "https://evil.example",
    "null",
    "",
    "file://",
    "http://localhost.evil.example",
    "http://localhost:1",
    "http://page.example.evil.example",
    "http://page.example:81",
    "https://page.example",
    "chrome-extension://abc",
    "http://ÿ",
)
# What the JavaScript client of OpenAI asks leave for, in a browser.
OPENAI_JS_HEADERS = ", ".join(
    (
        "authorization",
        "content-type",
        "x-stainless-arch",
        "x-stainless-lang",
        "x-stainless-os",
        "x-stainless-package-version",
        "x-stainless-retry-count",
        "x-stainless-runtime",
        "x-stainless-runtime-version",
        "x-stainless-timeout",
    )
)


def own_origin(client: Client) -> str:
    return client.base_url


def preflight(client: Client, origin: str, path: str = CHAT, method: str = "POST") -> Reply:
    return send(
        client.base_url,
        "OPTIONS",
        path,
        f"Origin: {origin}",
        f"Access-Control-Request-Method: {method}",
        f"Access-Control-Request-Headers: {OPENAI_JS_HEADERS}",
    )


ASKED = (
    ("GET", "/health"),
    ("GET", "/v1/models"),
    ("POST", CHAT),
    ("POST", "/v1/drain"),
    ("POST", "/v1/unload"),
    ("OPTIONS", CHAT),
    ("GET", "/nothing"),
)


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_foreign_page_is_refused(served: Client, locked: Client, origin: str) -> None:
    for client, (method, path) in product((served, locked), ASKED):
        reply = send(client.base_url, method, path, f"Origin: {origin}", f"Authorization: Bearer {KEYS[0]}")
        assert (reply.status, reply.error["code"]) == (403, "origin_not_allowed")
        assert "access-control-allow-origin" not in reply.headers


def test_the_servers_own_pages_are_let_in(served: Client) -> None:
    own = own_origin(served)
    host = f"Host: {own.removeprefix('http://')}"
    assert served.get("/v1/models", host, f"Origin: {own}").status == 200
    # The page of a proxy that speaks TLS in front of it is its own page too.
    assert served.get("/v1/models", host, f"Origin: {own.replace('http:', 'https:')}").status == 200
    assert served.get("/v1/models", "Host: localhost:1", "Origin: http://localhost:1").status == 200
    assert served.get("/v1/models", host, "Origin: http://localhost:1").status == 403


def test_one_good_origin_does_not_excuse_another(locked: Client) -> None:
    reply = locked.get("/health", f"Origin: {PAGE}", "Origin: http://evil.example")
    assert reply.status == 403


def test_a_given_page_is_let_in_and_told_so(locked: Client) -> None:
    reply = locked.get("/v1/models", f"Origin: {PAGE}", f"Authorization: Bearer {KEYS[0]}")
    assert reply.status == 200
    assert reply.headers["access-control-allow-origin"] == PAGE
    assert reply.headers["vary"] == "Origin"
    assert "X-Request-Id" in reply.headers["access-control-expose-headers"]


def test_the_page_can_read_refusals(locked: Client) -> None:
    replies = {
        401: locked.get("/v1/models", f"Origin: {PAGE}"),
        404: locked.get("/nothing", f"Origin: {PAGE}"),
        405: locked.post("/health", b"", f"Origin: {PAGE}"),
        400: locked.post(CHAT, "{", f"Origin: {PAGE}", f"Authorization: Bearer {KEYS[0]}"),
    }

    for status, reply in replies.items():
        assert reply.status == status
        assert reply.headers["access-control-allow-origin"] == PAGE
        assert reply.error["message"]


def test_without_pages_nothing_is_told_to_browsers(served: Client) -> None:
    headers = served.get("/health").headers
    assert not any(name.startswith("access-control") for name in headers)
    assert "vary" not in headers


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, "/v1/models", "/v1/models/x", "/health", "/nothing"])
def test_a_preflight_lets_the_javascript_client_through(locked: Client, path: str) -> None:
    reply = preflight(locked, PAGE, path)
    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers["access-control-allow-origin"] == PAGE
    assert reply.headers["access-control-allow-headers"] == OPENAI_JS_HEADERS
    assert {"GET", "POST"} <= set(reply.headers["access-control-allow-methods"].split(", "))
    assert int(reply.headers["access-control-max-age"]) > 0


def test_every_page_may_be_let_in(open_to_pages: Client) -> None:
    for origin in ("http://evil.example", "null", "http://ÿ"):
        assert preflight(open_to_pages, origin).headers["access-control-allow-origin"] == "*"
        assert open_to_pages.get("/v1/models", f"Origin: {origin}").headers["access-control-allow-origin"] == "*"


def test_a_page_can_read_a_stream(open_to_pages: Client) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}], "stream": True}
    reply = open_to_pages.post(CHAT, body, "Origin: http://page.example")
    assert reply.headers["access-control-allow-origin"] == "*"
    assert b"[DONE]" in reply.body


def test_headers_that_are_no_text_do_no_harm(open_to_pages: Client) -> None:
    request = b"OPTIONS /health HTTP/1.1\r\nHost: localhost\r\nOrigin: http://a\r\nAccess-Control-Request-Headers: x-\xff\r\n\r\n"
    reply = send(
        open_to_pages.base_url, "OPTIONS", "/health", "Origin: http://a", "Access-Control-Request-Headers: x-é"
    )
    assert reply.status == 204
    assert send_raw(open_to_pages.base_url, request).status == 204
