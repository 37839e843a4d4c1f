"""Routes and methods: what is not there, what is there for others, and HEAD and OPTIONS."""

from itertools import product

import pytest

from prism.http.app import ROUTES
from tests.contract.client import CHAT, Client
from tests.raw_http import head, send, send_raw

PATHS = {path.replace("{id:.*[^/]}", "stand-in"): method for method, path, _ in ROUTES}
UNKNOWN = (
    "/",
    "/v1",
    "/v1/",
    "/nothing",
    "/v1/nothing",
    "/v1/chat",
    "/HEALTH",
    "/favicon.ico",
    "//health",
    "/v1//models",
    "/v1/../health",
    "/health%2F",
    "/v1%2Fmodels",
    "/v1/models%00",
    "/health;x=1",
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE")


@pytest.mark.parametrize("path", PATHS)
def test_another_method_is_a_405(served: Client, path: str) -> None:
    allowed = "POST" if PATHS[path] == "POST" else "GET, HEAD"

    for method, suffix in product((m for m in METHODS if m not in allowed), ("", "//?x=1")):
        reply = send(served.base_url, method, path + suffix)
        assert (reply.status, reply.headers["allow"]) == (405, allowed)
        assert reply.headers["content-type"] == "application/json"

        if method != "HEAD":
            assert reply.error["code"] == "method_not_allowed"
            assert reply.error["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", [path for path, method in PATHS.items() if method == "GET"])
def test_head_is_get_without_the_body(served: Client, path: str) -> None:
    reply = send(served.base_url, "HEAD", path)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert int(reply.headers["content-length"]) > 0


@pytest.mark.parametrize(
    "path",
    UNKNOWN,
)
def test_an_unknown_route_is_a_404(served: Client, locked: Client, path: str) -> None:
    for client, method in product((served, locked), ("GET", "POST", "DELETE")):
        reply = send(client.base_url, method, path)
        assert (reply.status, reply.error["code"], reply.error["type"]) == (404, "not_found", "not_found_error")


def test_a_query_string_changes_nothing(served: Client) -> None:
    assert served.get("/health?verbose=1&x=%ff").status == 200
    assert served.get("/v1/models/stand-in?x").json["id"] == "stand-in"
    body = '{"model": "stand-in", "messages": [{"role": "user", "content": "x"}]}'
    assert served.post(f"{CHAT}?api-version=1", body).status == 200


def test_the_name_of_a_model_may_hold_what_a_url_has_to_escape(served: Client) -> None:
    for name in ("a%2Fb", "a%00b", "a%ffb", "%ED%A0%80", "%E4%BD%A0", "..", "a/b/c", "%22"):
        assert served.get(f"/v1/models/{name}").error["code"] == "model_not_found"

    assert served.get("/v1/models/%73tand%2Din").json["id"] == "stand-in"


def test_options_tell_what_is_there(served: Client) -> None:
    assert send(served.base_url, "OPTIONS", CHAT).headers["allow"] == "POST, OPTIONS"
    assert send(served.base_url, "OPTIONS", "/health").headers["allow"] == "GET, HEAD, OPTIONS"
    assert send(served.base_url, "OPTIONS", "*").headers["allow"] == "GET, HEAD, POST, OPTIONS"


def test_an_expectation_that_nobody_knows_gets_json_where_no_route_is(served: Client) -> None:
    reply = send_raw(served.base_url, head("GET", "/nothing", "Expect: wonders"))
    assert reply.status == 417
    assert reply.error["message"]
    assert served.get("/health", "Expect: wonders").status == 200


def test_every_answer_says_who_it_is_and_nothing_of_what_it_is_made_of(served: Client) -> None:
    for path in ("/health", "/nothing"):
        assert served.get(path).headers["server"] == "prism"
