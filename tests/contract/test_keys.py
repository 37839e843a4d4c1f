"""Who needs a key, and which one opens the server."""

import hmac
import json

import pytest

from prism.http.access import AccessRules
from prism.http.app import ROUTES
from tests.contract.client import CHAT, Client
from tests.contract.conftest import KEYS
from tests.raw_http import head, send, send_raw
from tests.whole.conftest import StartProcess

PUBLIC = {"/health", "/v1/health", "/v1/status", "/health/ready", "/openapi.json"}
PATHS = [(method, path.replace("{id:.*[^/]}", "some-model")) for method, path, _ in ROUTES]
TOO_LONG = f"Content-Length: {1 << 30}"


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_every_route_but_the_public_ones_asks_for_a_key(locked: Client, method: str, path: str) -> None:
    for suffix in ("", "/", "?x=1"):
        reply = send(locked.base_url, method, path + suffix)

        if path in PUBLIC:
            assert reply.status == 200
        else:
            assert (reply.status, reply.error["code"]) == (401, "invalid_api_key")
            assert reply.error["type"] == "authentication_error"
            assert reply.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_any_of_the_keys_opens_it(locked: Client, key: str, scheme: str) -> None:
    assert locked.get("/v1/models", f"Authorization: {scheme} {key}").status == 200
    assert locked.get("/v1/models", f"Authorization: {scheme}   {key} ").status == 200


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {KEYS[0]}x",
        f"Bearer {KEYS[0][:-1]}",
        f"Bearer {KEYS[0].upper()}",
        f"Bearer {KEYS[0]},{KEYS[1]}",
        f"Bearer {KEYS[0]} {KEYS[1]}",
        f"Basic {KEYS[0]}",
        KEYS[0],
        "Bearer kéy",
        "Bearer \x80",
    ],
)
def test_nothing_else_does(locked: Client, value: str) -> None:
    reply = locked.get("/v1/models", f"Authorization: {value}")
    assert (reply.status, reply.error["code"]) == (401, "invalid_api_key")
    assert KEYS[0] not in reply.error["message"]


def test_a_key_elsewhere_opens_nothing(locked: Client) -> None:
    assert locked.get(f"/v1/models?api_key={KEYS[0]}", f"X-Api-Key: {KEYS[0]}").status == 401


def test_the_key_comes_after_the_route_and_before_the_body(locked: Client) -> None:
    assert locked.get("/nothing").error["code"] == "not_found"
    assert send(locked.base_url, "PUT", CHAT).error["code"] == "method_not_allowed"
    # The body is announced and never sent: nobody waits for it.
    assert send_raw(locked.base_url, head("POST", CHAT, TOO_LONG)).error["code"] == "invalid_api_key"
    waiting = head("POST", CHAT, "Content-Length: 9", "Expect: 100-continue")
    assert send_raw(locked.base_url, waiting).error["code"] == "invalid_api_key"
    with_key = head("POST", CHAT, TOO_LONG, f"Authorization: Bearer {KEYS[1]}")
    assert send_raw(locked.base_url, with_key).error["code"] == "body_too_large"


def test_a_large_body_without_a_key_still_gets_a_readable_answer(locked: Client) -> None:
    body = json.dumps({"x": "y" * 5_000_000})
    assert locked.post(CHAT, body).error["code"] == "invalid_api_key"


def test_an_open_server_takes_any_key_and_none(served: Client) -> None:
    assert served.get("/v1/models", "Authorization: Bearer anything").status == 200
    assert served.get("/v1/models").status == 200


def test_every_key_is_compared_and_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(given: bytes, key: bytes) -> bool:
        compared.append((given, key))
        return given == key

    monkeypatch.setattr(hmac, "compare_digest", compare)
    rules = AccessRules("127.0.0.1", ("one", "two", "three"))
    assert rules.allows_key("Bearer one")
    assert compared == [(b"one", b"one"), (b"one", b"two"), (b"one", b"three")]


@pytest.mark.parametrize("key", ["", "some-key"])
async def test_an_address_that_others_reach_without_a_key_is_a_loud_warning(
    start_process: StartProcess, key: str
) -> None:
    server = await start_process(PRISM_HOST="0.0.0.0", PRISM_DEVICE="cpu", PRISM_API_KEY=key)
    server.process.terminate()
    status, output = await server.finish()

    assert status == 0
    assert ("WITHOUT A KEY" in output) == (not key)
    assert "some-key" not in output
