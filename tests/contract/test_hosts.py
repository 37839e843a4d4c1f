"""Which names a server on loopback answers to: a page that makes its own name point here (DNS rebinding) gets nothing."""

import pytest

from prism.http.access import AccessRules, host_of, is_loopback
from tests.contract.client import Client
from tests.raw_http import head, send_raw

OWN = (
    "localhost",
    "localhost:5272",
    "LocalHost",
    "localhost.",
    "localhost.:80",
    "localhost:",
    "127.0.0.1",
    "127.0.0.1:1",
    "127.0.0.2",
    "127.255.255.254:65535",
    "[::1]",
    "[::1]:5272",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
)
FOREIGN = (
    "evil.example",
    "evil.example:5272",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "128.0.0.1",
    "10.0.0.1",
    "0.0.0.0",
    "2130706433",
    "127.1",
    "[::]",
    "[::2]",
    "[::ffff:10.0.0.1]",
    "[fe80::1]",
    "[::1%25lo]",
    "[::1]evil.example",
    "[127.0.0.1]",
    "::1",
    "localhost..",
    ".localhost",
    "localhost:99999",
    "localhost:80:80",
    "localhost:port",
    "localhost?",
    "localhost/",
    "localhost#x",
    "local\thost",
    "localhost evil.example",
    "localhost,evil.example",
    "user@localhost",
    "evil.example@localhost",
    "localhost@evil.example",
    "localhost\\@evil.example",
    "ｌocalhost",
    "",
)


@pytest.mark.parametrize("host", OWN)
def test_every_name_of_this_machine_is_answered(served: Client, host: str) -> None:
    assert served.get("/health/ready", f"Host: {host}").status == 200


@pytest.mark.parametrize("host", FOREIGN)
def test_a_foreign_host_is_refused(served: Client, host: str) -> None:
    for path in ("/health", "/v1/models", "/nothing"):
        reply = served.get(path, f"Host: {host}")
        assert (reply.status, reply.error["code"], reply.error["type"]) == (403, "host_not_allowed", "forbidden")


def test_a_host_that_is_missing_or_said_twice_is_refused(served: Client) -> None:
    assert send_raw(served.base_url, "GET /health HTTP/1.0\r\n\r\n").error["code"] == "host_not_allowed"
    # Since HTTP/1.1 these are not even requests.
    assert send_raw(served.base_url, "GET /health HTTP/1.1\r\n\r\n").status in (400, 403)
    twice = head("GET", "/health", "Host: localhost", "Host: localhost")
    assert send_raw(served.base_url, twice).status in (400, 403)


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://localhost/health", "localhost", 200),
        ("http://127.0.0.1:5272/health?x=http://y/", "localhost", 200),
        ("http://evil.example/health", "localhost", 403),
        ("http://evil.example", "localhost", 403),
        ("http://localhost@evil.example/health", "localhost", 403),
        ("http://localhost/health", "evil.example", 403),
        ("/health?next=http://evil.example/", "localhost", 200),
    ],
)
def test_a_target_that_is_a_whole_url_names_a_host_too(served: Client, target: str, host: str, status: int) -> None:
    assert send_raw(served.base_url, head("GET", target, f"Host: {host}")).status == status


@pytest.mark.parametrize("bound", ["127.0.0.1", "127.8.8.8", "LOCALHOST", "::1"])
def test_the_check_is_on_for_every_loopback_address(bound: str) -> None:
    rules = AccessRules(bound)
    assert rules.is_loopback_bind
    assert rules.allows_host(["localhost"])
    assert not rules.allows_host(["evil.example"])


@pytest.mark.parametrize("bound", ["0.0.0.0", "::", "192.168.1.5", "my-machine"])
def test_other_addresses_answer_to_every_name(bound: str) -> None:
    rules = AccessRules(bound)
    assert not rules.is_loopback_bind
    assert rules.allows_host(["my-machine.lan"])
    assert rules.allows_host([])


@pytest.mark.parametrize("header", FOREIGN)
def test_what_is_no_name_of_this_machine(header: str) -> None:
    host = host_of(header)
    assert host is None or not is_loopback(host)
