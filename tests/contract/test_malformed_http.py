"""What is no HTTP gets the envelope too, and the connection ends. Nothing of it may leave a traceback: the server's fixture looks."""

import contextlib
import socket
import struct

import pytest

from tests.contract.client import CHAT, Client
from tests.raw_http import LOCALHOST, Wire, head, send_raw

HOST = f"{LOCALHOST}\r\n"
UNLOAD = f"POST /v1/unload HTTP/1.1\r\n{HOST}"
MALFORMED: dict[str, bytes | str] = {
    "no request line": "\x00\x01\x02\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "one word": "GARBAGE\r\n\r\n",
    "a version of the future": f"GET /health HTTP/9.9\r\n{HOST}\r\n",
    "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an unknown method": f"FETCH /health HTTP/1.1\r\n{HOST}\r\n",
    "a method in lower case": f"get /health HTTP/1.1\r\n{HOST}\r\n",
    "a target with a blank": f"GET /he alth HTTP/1.1\r\n{HOST}\r\n",
    "a target that is no path": f"GET health HTTP/1.1\r\n{HOST}\r\n",
    "bytes in the target": f"GET /v1/models/é HTTP/1.1\r\n{HOST}\r\n",
    "no colon": f"GET /health HTTP/1.1\r\n{HOST}no colon here\r\n\r\n",
    "a blank before the colon": f"GET /health HTTP/1.1\r\n{HOST}X-A : 1\r\n\r\n",
    "a folded header": f"GET /health HTTP/1.1\r\n{HOST}X-A: 1\r\n 2\r\n\r\n",
    "a NUL in a header": f"GET /health HTTP/1.1\r\n{HOST}X-A: a\0b\r\n\r\n",
    "a header name with a NUL": f"GET /health HTTP/1.1\r\n{HOST}X\0A: 1\r\n\r\n",
    "a line feed alone": "GET /health HTTP/1.1\nHost: localhost\n\n",
    "a long target": f"GET /health?{'a' * 20_000} HTTP/1.1\r\n{HOST}\r\n",
    "a long header": f"GET /health HTTP/1.1\r\n{HOST}X-A: {'a' * 20_000}\r\n\r\n",
    "a long header name": f"GET /health HTTP/1.1\r\n{HOST}{'a' * 20_000}: 1\r\n\r\n",
    "many headers": f"GET /health HTTP/1.1\r\n{HOST}{''.join(f'X-{n}: 1' + chr(13) + chr(10) for n in range(500))}\r\n",
    "two lengths": f"{UNLOAD}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}",
    "a length twice": f"{UNLOAD}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{{}}",
    "a list of lengths": f"{UNLOAD}Content-Length: 2, 2\r\n\r\n{{}}",
    "a length and chunks": f"{UNLOAD}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n",
    "a negative length": f"{UNLOAD}Content-Length: -2\r\n\r\n{{}}",
    "a length with a plus": f"{UNLOAD}Content-Length: +2\r\n\r\n{{}}",
    "a length past all numbers": f"{UNLOAD}Content-Length: {10**30}\r\n\r\n{{}}",
    "an unknown coding": f"{UNLOAD}Transfer-Encoding: gzip\r\n\r\n",
    "chunked is not the last coding": f"{UNLOAD}Transfer-Encoding: chunked, gzip\r\n\r\n",
    "a size that is no number": f"{UNLOAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n",
    "a negative size": f"{UNLOAD}Transfer-Encoding: chunked\r\n\r\n-2\r\n{{}}\r\n0\r\n\r\n",
    "a chunk longer than it says": f"{UNLOAD}Transfer-Encoding: chunked\r\n\r\n1\r\n{{}}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_http_gets_the_envelope_and_the_end(served: Client, name: str) -> None:
    with Wire(served.base_url) as wire:
        wire.send(MALFORMED[name])
        reply = wire.reply()
        assert reply.status == 400
        assert reply.error["type"] == "invalid_request_error"
        assert (reply.error["code"], reply.error["param"]) == (None, None)
        assert reply.error["message"].startswith("This is not valid HTTP: ")
        assert len(reply.error["message"]) < 200
        assert reply.headers["server"] == "prism"
        assert wire.is_closed()

    assert served.get("/health").status == 200


def test_a_sender_is_not_shown_its_own_bytes(served: Client) -> None:
    reply = send_raw(served.base_url, f"GET /health HTTP/1.1\r\n{HOST}Authorization: Bearer {'secret' * 2_000}\r\n\r\n")
    assert "secret" not in reply.error["message"]


@pytest.mark.parametrize("chunk", ["zz\r\n", "1\r\n{}\r\n", "ffffffffffffffffffff\r\n"])
def test_a_bad_chunk_after_a_good_beginning_is_a_400(served: Client, chunk: str) -> None:
    with Wire(served.base_url) as wire:
        wire.send(head("POST", CHAT, "Transfer-Encoding: chunked", "Expect: 100-continue"))
        # The handler reads now.
        assert wire.reply().status == 100
        wire.send(f"1\r\n{{\r\n{chunk}")
        reply = wire.reply()
        assert reply.status == 400
        assert reply.error["code"] is None
        assert wire.is_closed()


@pytest.mark.parametrize("sent", ["", "{", '{"model": "stand-in"'])
def test_a_client_that_leaves_in_its_body_is_forgotten(served: Client, sent: str) -> None:
    with Wire(served.base_url) as wire:
        wire.send(head("POST", CHAT, "Content-Length: 500", "Expect: 100-continue"))
        assert wire.reply().status == 100
        wire.send(sent)

    assert served.ask().status == 200


def test_a_client_that_leaves_in_its_headers_is_forgotten(served: Client) -> None:
    for sent in ("", "GET /hea", f"GET /health HTTP/1.1\r\n{HOST}"):
        with Wire(served.base_url) as wire:
            wire.send(sent)

    assert served.get("/health").status == 200


def test_what_follows_a_good_request_does_not_spoil_it(served: Client) -> None:
    with Wire(served.base_url) as wire:
        wire.send(head("GET", "/health/ready"))
        assert wire.reply().status == 200
        wire.send("GARBAGE\r\n\r\n")
        assert wire.reply().status == 400
        assert wire.is_closed()


def test_a_body_that_is_no_request_is_not_taken_for_one(served: Client) -> None:
    """A request inside the body of another one stays a body."""
    inner = f"GET /health/ready HTTP/1.1\r\n{HOST}\r\n"
    with Wire(served.base_url) as wire:
        wire.send(head("POST", CHAT, f"Content-Length: {len(inner)}") + inner + head("GET", "/v1/models/stand-in"))
        assert wire.reply().status == 400
        assert wire.reply().json["id"] == "stand-in"


UPLOAD = head("POST", CHAT, "Transfer-Encoding: chunked")
PHASES = {
    "after the headers": UPLOAD,
    "in the size of a chunk": f"{UPLOAD}1",
    "before a chunk": f"{UPLOAD}14\r\n",
    "in a chunk": f'{UPLOAD}14\r\n{{"model"',
    "between two chunks": f"{UPLOAD}1\r\n{{\r\n",
    "before the last line": f"{UPLOAD}2\r\n{{}}\r\n0\r\n",
    "in a trailer": f"{UPLOAD}2\r\n{{}}\r\n0\r\nX-Trailer: 1",
    "in a body with a length": head("POST", CHAT, "Content-Length: 500") + '{"model"',
}


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("phase", PHASES)
def test_a_client_that_leaves_in_its_upload_is_forgotten(served: Client, phase: str, is_reset: bool) -> None:
    with Wire(served.base_url) as wire:
        if is_reset:
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        wire.send(PHASES[phase])

    assert served.ask().status == 200


def test_trailers_without_an_end_are_refused_before_they_fill_the_memory(served: Client) -> None:
    line = f"X-Trailer: {'a' * 4000}\r\n"

    with Wire(served.base_url) as wire, contextlib.suppress(ConnectionError):
        wire.send(f"{UPLOAD}2\r\n{{}}\r\n0\r\n")

        for _ in range(2_000):
            wire.send(line)

        assert wire.reply().status == 400
        assert wire.is_closed()

    assert served.get("/health").status == 200


def test_hundreds_of_requests_sent_ahead_are_answered_in_order(served: Client) -> None:
    """More than may be kept in memory: the rest waits in the kernel."""
    with Wire(served.base_url) as wire:
        wire.send("".join(head("GET", f"/nothing/{number}") for number in range(500)))

        for number in range(500):
            assert f"'/nothing/{number}'" in wire.reply().error["message"]
