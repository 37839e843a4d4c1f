"""Keys, prompts and places in memory or on the disk: not in errors, not in the log, not where other processes look."""

import re
from pathlib import Path

import pytest

from tests.advisories.conftest import KEY, OTHER_SECRETS, SECRET, WITH_KEY, Watched
from tests.contract.client import CHAT, COMPLETIONS, EMBEDDINGS
from tests.raw_http import Reply, head, send

PROMPT = "prompt-of-a-client-51c2"
HOSTILE = "x\r\nINFO forged: line\x1b[2J\x07\u2028\u202e\x9b31m"
ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


def refusals(watched: Watched) -> list[Reply]:
    """Return errors of every kind that a client can make."""
    said = [{"role": "user", "content": PROMPT}]
    aborting = [{"role": "user", "content": '@stand-in {"at": {"token:1": "abort"}}'}]
    failing = {"fail": {"code": "engine_error", "message": f"at {PROMPT}", "is_fatal": False}}
    return [
        watched.client.post(CHAT, "{"),
        watched.client.get("/v1/models"),
        watched.client.post(CHAT, "{", WITH_KEY),
        watched.client.post(CHAT, b"\xff\xfe", WITH_KEY),
        watched.client.post(CHAT, "[" * 100_000, WITH_KEY),
        watched.ask(CHAT, model="nothing"),
        watched.ask(CHAT, model=HOSTILE),
        watched.ask(CHAT, messages=said, temperature="hot"),
        watched.ask(CHAT, messages=said, tools=[{"type": "function", "function": {"name": HOSTILE}}]),
        watched.ask(CHAT, model="raising", tools=[{"type": "function", "function": {"name": HOSTILE}}]),
        watched.ask(CHAT, model="dying", messages=said),
        watched.ask(CHAT, messages=aborting),
        watched.ask(
            COMPLETIONS,
            prompt=f"{PROMPT}\n@stand-in {str(failing).replace(chr(39), chr(34)).replace('False', 'false')}",
        ),
        watched.ask(EMBEDDINGS, input=PROMPT),
        watched.get(f"/{PROMPT}"),
        send(watched.client.base_url, "PUT", CHAT),
        watched.send_raw(head("GET", "/health", "Host: evil.example")),
        watched.send_raw("GARBAGE\r\n\r\n"),
    ]


def test_errors_tell_nothing_of_the_inside(watched: Watched) -> None:
    replies = refusals(watched)
    assert {reply.status for reply in replies} >= {400, 401, 403, 404, 405, 500}
    inside = (KEY, SECRET, "Traceback", "ipc:", "/prism-", str(watched.folder), "site-packages", "msgspec", "aiohttp")

    for reply in replies:
        text = reply.body.decode()
        assert [word for word in inside if word in text] == [], text
        assert ADDRESS.search(text) is None, text
        assert reply.error["message"]


def test_the_log_holds_no_prompt_no_key_and_no_line_that_somebody_else_wrote(watched: Watched) -> None:
    refusals(watched)
    watched.ask(CHAT, messages=[{"role": "user", "content": PROMPT}])
    watched.get("/health", f"X-Request-Id: {PROMPT}", f"User-Agent: {PROMPT}", f"Cookie: {PROMPT}")
    log = watched.log

    assert PROMPT not in log
    assert KEY not in log
    assert SECRET not in log
    assert "forged" not in [line.partition(":")[0].rpartition(" ")[2] for line in log.splitlines()]
    assert {letter for letter in log if not letter.isprintable()} == {"\n"}


def test_a_worker_shows_no_secret_to_those_who_look_at_processes(watched: Watched) -> None:
    watched.ask(CHAT, messages=[{"role": "user", "content": PROMPT}])
    shown = [Path(f"/proc/{watched.worker_pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
    shown.append(Path(f"/proc/{watched.front_pid}/cmdline").read_bytes())

    for secret in (KEY, SECRET, PROMPT):
        assert [text for text in shown if secret.encode() in text] == []

    names = {entry.partition(b"=")[0].decode() for entry in shown[1].split(b"\0")}
    assert not names & (set(OTHER_SECRETS) | {"PRISM_API_KEY", "PRISM_API_KEY_FILE", "NOTIFY_SOCKET"})


@pytest.mark.parametrize("name", ["health", "v1/models", "openapi.json"])
def test_public_answers_hold_no_place_on_the_disk(watched: Watched, name: str) -> None:
    reply = watched.get(f"/{name}")
    assert reply.status == 200
    assert [word for word in (str(watched.folder), "/prism-", KEY) if word in reply.body.decode()] == []
