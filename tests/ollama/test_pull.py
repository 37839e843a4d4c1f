"""`prism pull ollama:NAME` and `prism list` beside a daemon: what they print, and how they end."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from prism.exit_codes import ExitCode
from prism.ollama.daemon import OllamaDaemon
from prism.ollama.errors import DaemonCutShort, DaemonRefused
from prism.ollama.pull import pull_model
from tests.ollama.fake_daemon import FakeDaemon, Step, cut, fault, hang

ROOT = Path(__file__).parents[2]
DIGEST = "sha256:667b0c1932bc6ffc593ed1d03f895bf2dc8dc6df21db3042284a6f4416b06a29"


def told(status: str, **more: object) -> bytes:
    return json.dumps({"status": status, **more}).encode() + b"\n"


def part(completed: int, total: int = 200) -> bytes:
    return told(f"pulling {DIGEST[7:19]}", digest=DIGEST, total=total, completed=completed)


WHOLE: tuple[Step, ...] = (
    told("pulling manifest"),
    told(f"pulling {DIGEST[7:19]}", digest=DIGEST, total=200),
    part(50),
    part(120),
    part(200),
    told("verifying sha256 digest"),
    told("writing manifest"),
    told("success"),
)


async def start(daemon: FakeDaemon, tmp_path: Path, *arguments: str) -> asyncio.subprocess.Process:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PRISM_")}
    environment |= {"OLLAMA_HOST": daemon.url, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "prism", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )


async def run(daemon: FakeDaemon, tmp_path: Path, *arguments: str) -> tuple[int | None, list[str], str]:
    """Return exit code, lines of stdout, and stderr."""
    process = await start(daemon, tmp_path, *arguments)
    out, err = await asyncio.wait_for(process.communicate(), 20)
    return process.returncode, out.decode().splitlines(), err.decode()


async def test_a_model_is_pulled_and_its_progress_is_shown(daemon: FakeDaemon, tmp_path: Path) -> None:
    daemon.pull = WHOLE
    assert await run(daemon, tmp_path, "pull", " Ollama:nomic-embed-text ") == (
        ExitCode.OK,
        [
            "pulling manifest ...",
            "pulling 667b0c1932bc ...",
            "pulling 667b0c1932bc 25 %",
            "pulling 667b0c1932bc 60 %",
            "pulling 667b0c1932bc 100 %",
            "verifying sha256 digest ...",
            "writing manifest ...",
            "nomic-embed-text is installed with Ollama; use it as ollama:nomic-embed-text",
        ],
        "",
    )
    (body,) = daemon.bodies("/api/pull")
    assert (body["model"], body["stream"]) == ("nomic-embed-text", True)


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ((told("pulling manifest"), fault("pull model manifest: file does not exist")), "file does not exist"),
        ((told("pulling manifest"), part(50), cut), "the connection ended"),
        ((told("pulling manifest"), part(200)), "before the model was whole"),
        ((b"garbage\n",), "not of its API"),
    ],
)
async def test_one_that_fails_is_one_line_and_1(
    daemon: FakeDaemon, tmp_path: Path, steps: tuple[Step, ...], says: str
) -> None:
    """D-51."""
    daemon.pull = steps
    code, _, err = await run(daemon, tmp_path, "pull", "ollama:x")
    assert code == ExitCode.FAILURE
    assert err.startswith("prism: x was not pulled: ")
    assert says in err
    assert err.count("\n") == 1


async def test_no_daemon_is_one_line_and_1(daemon: FakeDaemon, tmp_path: Path) -> None:
    """D-52, D-56: a traceback, and another address than the one that is set."""
    daemon.url = "http://127.0.0.1:9"
    code, _, err = await run(daemon, tmp_path, "pull", "ollama:x")
    assert code == ExitCode.FAILURE
    assert "http://127.0.0.1:9" in err
    assert "OLLAMA_HOST" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("arguments", [("pull", "ollama:"), ("pull", "ollama:x", "--output-dir", "/tmp")])
async def test_a_command_line_that_makes_no_sense_is_2(
    daemon: FakeDaemon, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    assert (await run(daemon, tmp_path, *arguments))[0] == ExitCode.USAGE
    assert daemon.asked == []


async def test_a_host_that_is_none_is_a_matter_of_configuration(daemon: FakeDaemon, tmp_path: Path) -> None:
    daemon.url = "ftp://x"
    code, _, err = await run(daemon, tmp_path, "pull", "ollama:x")
    assert code == ExitCode.CONFIGURATION
    assert "OLLAMA_HOST must" in err


async def test_ctrl_c_ends_with_130_and_ends_the_download(daemon: FakeDaemon, tmp_path: Path) -> None:
    daemon.pull = (part(50), hang)
    process = await start(daemon, tmp_path, "pull", "ollama:x")
    await asyncio.wait_for(daemon.begun.wait(), 10)
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), 10)
    assert process.returncode == ExitCode.INTERRUPTED
    assert b"Traceback" not in err
    await asyncio.wait_for(daemon.left.wait(), 5)


async def test_control_characters_reach_no_terminal(client: OllamaDaemon, daemon: FakeDaemon) -> None:
    daemon.pull = (told("\x1b[31mred\x07 [bold]" + "x" * 200), told("success"))
    steps: list[str] = []
    await pull_model(client, "x", lambda step, *_: steps.append(step))
    assert steps == [("31mred bold" + "x" * 200)[:80]]


async def test_figures_that_make_no_sense_are_bounded(client: OllamaDaemon, daemon: FakeDaemon) -> None:
    daemon.pull = (part(900), part(-5), told("success"))
    seen: list[tuple[int, int | None]] = []
    await pull_model(client, "x", lambda _, done, total: seen.append((done, total)))
    assert seen == [(200, 200), (0, 200)]


async def test_only_success_is_success(client: OllamaDaemon, daemon: FakeDaemon) -> None:
    daemon.pull = (part(200),)

    with pytest.raises(DaemonCutShort):
        await pull_model(client, "x", lambda *_: None)

    daemon.pull = (fault("no"),)

    with pytest.raises(DaemonRefused, match="no"):
        await pull_model(client, "x", lambda *_: None)


async def test_the_list_has_the_daemons_models(daemon: FakeDaemon, tmp_path: Path) -> None:
    daemon.models = {"llama3.1:latest": 3 << 20}
    code, lines, _ = await run(daemon, tmp_path, "list")
    assert code == ExitCode.OK
    assert lines[1].split() == ["llama3.1:latest", "3.0", "MB", "-", "-", "with", "Ollama"]
    _, lines, _ = await run(daemon, tmp_path, "list", "--json")
    (model,) = json.loads("".join(lines))
    assert (model["id"], model["engine"], model["size_mb"]) == ("llama3.1:latest", "Ollama (llama.cpp)", 3.0)
    assert model["path"] is None


async def test_the_doctor_says_where_it_looked(daemon: FakeDaemon, tmp_path: Path) -> None:
    """D-56."""
    daemon.models = {"llama3.1:latest": 1}
    _, lines, _ = await run(daemon, tmp_path, "doctor", "--json")
    (check,) = [check for check in json.loads("".join(lines)) if check["name"] == "ollama"]
    assert (check["verdict"], check["detail"]) == ("ok", f"1 models at {daemon.url}")
