"""What a request may make the server do: nothing but answer. Each test is a class of advisories of comparable servers."""

import base64
import json
import socket
import time
import zlib
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.advisories.conftest import WITH_KEY, Watched
from tests.contract.client import CHAT, COMPLETIONS, EMBEDDINGS, MODEL
from tests.raw_http import Reply, Wire, head

CANARY = "canary-7f3a"
# As the root's conftest sets it: nobody listens there.
OLLAMA_ADDRESS = "('127.0.0.1', 9)"
ECHO = '@stand-in {"echo": true}'
PATHS_AS_NAMES = (
    "../secret",
    "../../../../etc/passwd",
    "..\\..\\secret",
    "/etc/passwd",
    "//etc/passwd",
    "file:///etc/passwd",
    "stand-in/../../secret",
    "stand-in/genai_config.json",
    "%2e%2e/secret",
    "./stand-in",
    "~/secret",
    "stand-in\0.json",
    "http://127.0.0.1/model",
    "|id",
    "$(id)",
    "{{7*7}}",
)


def test_no_url_of_a_request_is_ever_fetched(watched: Watched) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x.png"
        image = {"type": "image_url", "image_url": {"url": url}}
        text = {"type": "text", "text": f"![x]({url}) <img src={url}> see {url}"}

        for content in ([text, image], [text, {"type": "input_audio", "input_audio": {"data": url}}], text["text"]):
            watched.ask(CHAT, messages=[{"role": "user", "content": content}])

        watched.ask(COMPLETIONS, prompt=str(text["text"]))
        watched.ask(EMBEDDINGS, input=url)
        watched.ask(CHAT, model=url)
        watched.ask(CHAT, tools=[{"type": "function", "function": {"name": "f", "parameters": {"$ref": url}}}])

        with pytest.raises(TimeoutError):
            listener.accept()

    # The hooks are there: loading a model, for one, opens files.
    assert watched.events("open")
    outside = [event for event in watched.events("socket.connect") if "'/" not in event and "b'/" not in event]
    # Whether the Ollama daemon has a model of such a name is asked of that daemon, where the operator says that it is.
    assert [event for event in outside if OLLAMA_ADDRESS not in event] == []
    assert watched.events("socket.getaddrinfo") == [
        event for event in watched.events("socket.getaddrinfo") if "127.0.0.1" in event
    ]


@pytest.mark.parametrize("name", PATHS_AS_NAMES)
def test_a_name_of_a_model_is_no_path(watched: Watched, name: str) -> None:
    (watched.folder / "secret").write_text(CANARY)
    opened = len(watched.events("open", "subprocess.Popen", "os.system"))
    replies = [watched.ask(CHAT, model=name), watched.ask(COMPLETIONS, model=name)]
    replies.append(watched.get(f"/v1/models/{quote(name, safe='')}"))
    replies.append(watched.get(f"/v1/models/{quote(name)}"))

    assert {reply.status for reply in replies} <= {400, 404}
    assert not any(CANARY in reply.body.decode() for reply in replies)
    # What is looked at for a name is the folders of models, which a walk lists.
    asked = [
        line for line in watched.events("open", "subprocess.Popen", "os.system")[opened:] if "/models/" not in line
    ]
    assert [line for line in asked if "secret" in line or "passwd" in line] == []


def test_numbers_without_measure_cost_nothing(watched: Watched) -> None:
    pid = watched.worker_pid
    begun = time.monotonic()

    for fields in ({"n": 10**9}, {"max_tokens": 2**31}, {"max_tokens": 10**30}, {"top_k": 2**62}, {"seed": -(2**63)}):
        assert watched.ask(CHAT, **fields).status in (200, 400)

    reply = watched.ask(CHAT, n=10**9)
    assert (reply.status, len(reply.json["choices"])) == (200, 1)
    assert time.monotonic() - begun < 5
    assert watched.worker_pid == pid


@pytest.mark.parametrize(
    "given", ["a\x01b", "a\x1b[31mb", "é", "x" * 1_000, "%0d%0aSet-Cookie: a=b", "a\tb", " ", "a\x7fb"]
)
def test_what_is_echoed_in_a_header_is_one_plain_line(watched: Watched, given: str) -> None:
    request = head("GET", "/health/ready", f"X-Request-Id: {given}").encode()
    reply = watched.send_raw(request)
    assert "set-cookie" not in reply.headers
    echoed = reply.headers.get("x-request-id", "")
    assert echoed.isascii()
    assert echoed.isprintable()
    assert len(echoed) <= 128


INNER = f"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n{WITH_KEY}\r\n\r\n"
UNCLEAR = {
    "a length in hex": "Content-Length: 0x2",
    "a length with an underscore": "Content-Length: 1_0",
    "a length in other digits": "Content-Length: \uff12",
    "a length that is blank": "Content-Length: ",
    "chunked behind a tab": "Transfer-Encoding:\x0bchunked",
    "chunked with a neighbour": "Transfer-Encoding: xchunked",
    "chunked twice": "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "chunked and identity": "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "chunked and a length": "Transfer-Encoding: chunked\r\nContent-Length: 4",
    "a length and chunked": "Content-Length: 4\r\nTransfer-Encoding: chunked",
    "a folded length": "Content-Length:\r\n 4",
    "a line feed before a header": "X: 1\nTransfer-Encoding: chunked",
    "a carriage return before a header": "X: 1\rTransfer-Encoding: chunked",
    "a blank before the colon": "Content-Length : 4",
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_a_body_whose_end_is_unclear_hides_no_request(watched: Watched, name: str) -> None:
    """Whichever end the sender means, what follows must not be answered as a request of its own."""
    with Wire(watched.client.base_url) as wire:
        wire.send(f"POST /v1/unload HTTP/1.1\r\nHost: localhost\r\n{UNCLEAR[name]}\r\n\r\n0\r\n\r\n{INNER}".encode())
        reply = wire.reply()
        # Without a key: had it been understood, it would be a 401.
        assert reply.status == 400 or (reply.status == 401 and reply.headers.get("connection") == "close"), reply
        assert wire.is_closed()


def test_a_refused_body_is_not_the_next_request(watched: Watched) -> None:
    with Wire(watched.client.base_url) as wire:
        wire.send(head("POST", "/v1/unload", f"Content-Length: {len(INNER)}") + INNER)
        assert wire.reply().status == 401
        wire.send(head("GET", "/health/ready"))
        assert wire.is_closed() or set(wire.reply().json) == {"ready", "state", "reason"}


def test_trailers_of_a_body_change_nothing(watched: Watched) -> None:
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "x"}]})
    chunked = "Transfer-Encoding: chunked"

    for trailers, with_key, without_key in (
        ("X-A: 1\r\n", 200, 401),
        ("Host: evil.example\r\nContent-Length: 1\r\n", 400, 400),
    ):
        chunks = f"{len(body):x}\r\n{body}\r\n0\r\n{trailers}"
        assert watched.send_raw(f"{head('POST', CHAT, WITH_KEY, chunked)}{chunks}\r\n").status == with_key
        assert watched.send_raw(f"{head('POST', CHAT, chunked)}{chunks}{WITH_KEY}\r\n\r\n").status == without_key


@pytest.mark.parametrize(
    "coding", ["Content-Encoding: gzip", "Content-Encoding: identity, br", "Transfer-Encoding: gzip, chunked"]
)
def test_nothing_that_comes_packed_is_unpacked(watched: Watched, coding: str) -> None:
    """A hundred megabytes of nothing, in a tenth of one."""
    packer = zlib.compressobj(wbits=31)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(100)) + packer.flush()
    before = peak_memory_kb(watched.front_pid)
    is_chunked = "chunked" in coding
    framing = () if is_chunked else (f"Content-Length: {len(packed)}",)
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed) if is_chunked else packed
    reply = watched.send_raw(head("POST", CHAT, WITH_KEY, coding, *framing).encode() + body)

    assert reply.status == (400 if is_chunked else 415)
    assert peak_memory_kb(watched.front_pid) - before < 30_000


def peak_memory_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


@pytest.mark.parametrize(
    "path", ["/health?", "/health/ready/../../v1/models", "/health;/v1/models", "//v1/models", "/v1/models?/health"]
)
@pytest.mark.parametrize("host", ["localhost", "localhost/health?", "localhost:1#/health"])
def test_no_spelling_of_a_target_goes_round_the_key(watched: Watched, path: str, host: str) -> None:
    reply = watched.send_raw(head("GET", path, f"Host: {host}"))
    assert reply.status in (200, 400, 401, 403, 404)
    assert "stand-in" not in reply.body.decode() or "active_model" in reply.json


def test_nothing_of_a_request_is_left_for_the_next(watched: Watched) -> None:
    same = {"conversation_id": "one", "prompt_cache_key": "two"}
    first = watched.ask(CHAT, messages=[{"role": "user", "content": f"{CANARY}\n{ECHO}"}], **same)
    cut = watched.ask(CHAT, messages=[{"role": "user", "content": CANARY}], stream=True, max_tokens=1, **same)
    tool = {"type": "function", "function": {"name": CANARY}}
    failed = watched.ask(CHAT, model="raising", tools=[tool])
    assert (first.status, cut.status, failed.status) == (200, 200, 400)

    # The stand-in answers with the prompt that reached it.
    assert CANARY in echoed(first)

    for reply in (
        watched.ask(CHAT, messages=[{"role": "user", "content": ECHO}], **same),
        watched.ask(COMPLETIONS, prompt=ECHO, **same),
    ):
        assert "@stand-in" in echoed(reply)
        assert CANARY not in echoed(reply)


def echoed(reply: Reply) -> str:
    choice = reply.json["choices"][0]
    return base64.b64decode(choice["message"]["content"] if "message" in choice else choice["text"]).decode()


def test_no_answer_is_a_redirect_or_sets_a_cookie(watched: Watched) -> None:
    for path in ("/", "//evil.example/", "/v1/models//", "/health/", "/\\evil.example", "/%2f%2fevil.example", "/v1"):
        reply = watched.get(path, "Cookie: a=b")
        assert not 300 <= reply.status < 400
        assert not {"location", "set-cookie"} & set(reply.headers)
