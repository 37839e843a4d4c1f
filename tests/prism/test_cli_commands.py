"""What `list`, `pull` and `status` print, and how they end."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from prism import own_modules
from prism.cli import cli, run
from prism.cli_progress import PlainProgress, ReportProgress
from prism.exit_codes import ExitCode
from tests.prism.model_folders import make_model_folder


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of the machine that runs the tests, and an empty home."""
    for name in [name for name in os.environ if name.startswith("PRISM_")]:
        monkeypatch.delenv(name)

    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


class TestList:
    def test_nothing_is_installed(self) -> None:
        assert "prism pull smollm2-135m" in invoke("list").stdout
        assert json.loads(invoke("list", "--json").stdout) == []

    def test_models_are_shown(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # D-64
        folder = make_model_folder(tmp_path / "tiny-gpu", graph=bytes(2 << 20))
        monkeypatch.setenv("PRISM_MODEL_DIRS", str(tmp_path))
        lines = invoke("list").stdout.splitlines()
        assert lines[0].split() == ["ID", "SIZE", "EXPORTED", "FOR", "CONTEXT", "FOLDER"]
        assert re.split(r"  +", lines[1]) == ["tiny-gpu", "2.0 MB", "CUDA (GPU)", "2048", str(folder)]
        (model,) = json.loads(invoke("list", "--json").stdout)
        assert model == {
            "id": "tiny-gpu",
            "engine": "ONNX Runtime GenAI",
            "size_mb": 2.0,
            "exported_for": "CUDA (GPU)",
            "model_type": "llama",
            "context_length": 2048,
            "created": int((folder / "genai_config.json").stat().st_mtime),
            "path": str(folder),
        }


class TestPull:
    def test_an_unknown_model_says_what_there_is(self) -> None:  # D-51
        result = invoke("pull", "gpt-5")
        assert result.exit_code == ExitCode.FAILURE
        assert result.stderr.splitlines() == [
            "prism: cannot pull 'gpt-5'; what can be pulled: smollm2-135m, smollm2-135m-paged and ollama:NAME"
        ]

    @pytest.fixture
    def pulled(self, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
        """Stand in for the download; the list takes the folder that it was to fill.

        It fails for a folder called `full`.
        """
        folders: list[Path] = []
        # What each source is made to tell as its progress.
        sources = {"smollm2-135m": "download", "smollm2-135m-paged": "download for several"}

        class PullError(Exception):
            pass

        def pull_smollm2(models_dir: Path, *, progress: ReportProgress, source: str) -> None:
            folders.append(models_dir)
            progress(source, 1, 2)

            if models_dir.name == "full":
                raise PullError("no space left on the disk")

            if models_dir.name == "interrupted":
                raise KeyboardInterrupt

        demo_model = {"pull_smollm2": pull_smollm2, "DEMO_SOURCES": sources}

        for name, content in (("errors", {"PullError": PullError}), ("demo_model", demo_model)):
            module = types.ModuleType(f"prism.pull.{name}")
            vars(module).update(content)
            monkeypatch.setitem(sys.modules, module.__name__, module)

        return folders

    def test_the_model_goes_where_it_is_looked_for(self, pulled: list[Path], tmp_path: Path) -> None:
        result = invoke("pull", "SmolLM2-135M")
        assert result.exit_code == 0
        assert pulled == [tmp_path / "home" / ".prism" / "models"]
        assert result.stdout.splitlines() == [
            "download ...",
            "download 50 %",
            f"smollm2-135m is installed in {pulled[0]}",
        ]

    def test_the_paged_form_is_a_model_of_its_own(self, pulled: list[Path]) -> None:
        result = invoke("pull", "smollm2-135m-paged")
        assert result.stdout.splitlines() == [
            "download for several ...",
            "download for several 50 %",
            f"smollm2-135m-paged is installed in {pulled[0]}",
        ]

    def test_another_folder_is_told_how_to_be_found(self, pulled: list[Path], tmp_path: Path) -> None:
        result = invoke("pull", "smollm2-135m", "--output-dir", str(tmp_path / "mine"))
        assert pulled == [tmp_path / "mine"]
        assert f"PRISM_MODEL_DIRS={tmp_path / 'mine'}" in result.stdout

    def test_a_download_that_fails_is_one_line(self, pulled: list[Path], tmp_path: Path) -> None:  # D-51
        result = invoke("pull", "smollm2-135m", "--output-dir", str(tmp_path / "full"))
        assert (result.exit_code, len(pulled)) == (ExitCode.FAILURE, 1)
        assert result.stderr == "prism: smollm2-135m was not pulled: no space left on the disk\n"

    def test_ctrl_c_ends_with_130(self, pulled: list[Path], tmp_path: Path) -> None:
        assert run(["pull", "smollm2-135m", "--output-dir", str(tmp_path / "interrupted")]) == ExitCode.INTERRUPTED
        assert len(pulled) == 1

    def test_plain_progress_tells_each_step_and_its_quarters(self) -> None:
        lines: list[str] = []
        progress = PlainProgress(lines.append)

        for done in range(0, 101, 10):
            progress("download", done, 100)

        progress("convert", 5, None)
        progress("write", 0, 0)
        assert lines == [
            "download ...",
            "download 30 %",
            "download 50 %",
            "download 80 %",
            "download 100 %",
            "convert ...",
            "write ...",
        ]


@pytest.fixture
def health_server() -> Iterator[HTTPServer]:
    """Something that answers on a port: what `answer` holds, whatever is asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = self.server.answer  # type: ignore[attr-defined]
            self.server.paths.append(self.path)  # type: ignore[attr-defined]
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.paths = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_names_of_folders_do_not_steer_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_model_folder(tmp_path / "a\x1b[2J\nb" / "tiny")
    (make_model_folder(tmp_path / "c\x1b]0;x\x07" / "half") / "tokenizer.json").unlink()
    monkeypatch.setenv("PRISM_MODEL_DIRS", str(tmp_path))

    for command in ("list", "doctor"):
        shown = invoke(command).stdout
        assert "tiny" in shown
        assert all(line.isprintable() for line in shown.splitlines())


class TestStatus:
    def ask(self, server: HTTPServer, body: bytes, status: int = 200, path: str = "/v1") -> Result:
        server.answer = (status, body)  # type: ignore[attr-defined]
        return invoke("status", "--url", f"http://127.0.0.1:{server.server_port}{path}")

    def test_a_running_server_is_shown(self, health_server: HTTPServer) -> None:
        health = {"status": "ok", "state": "ready", "active_model": "tiny", "active_device": "cpu", "version": "9.8"}
        health["fallback_reason"] = "no CUDA library"
        result = self.ask(health_server, json.dumps(health).encode())
        assert result.exit_code == 0
        assert [word for word in ("9.8", "ready", "tiny", "cpu", "no CUDA library") if word not in result.stdout] == []

    @pytest.mark.parametrize(("path", "asked"), [("/v1", "/health"), ("", "/health"), ("/gpu/v1", "/gpu/health")])
    def test_health_lies_beside_the_api(self, health_server: HTTPServer, path: str, asked: str) -> None:
        self.ask(health_server, b'{"status": "ok"}', path=path)
        assert health_server.paths == [asked]  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("body", "status"),
        [(b"<html>", 200), (b"[]", 200), (b"{}", 200), (b'{"status":"ok"}', 404), (b"[" * 100_000, 200)],
    )
    def test_another_server_is_not_taken_for_prism(self, health_server: HTTPServer, body: bytes, status: int) -> None:
        result = self.ask(health_server, body, status)
        assert result.exit_code == ExitCode.FAILURE
        assert "is not a Prism server" in result.stderr

    def test_words_of_a_server_do_not_steer_the_terminal(self, health_server: HTTPServer) -> None:
        hostile = {
            "status": "ok",
            "state": "x\x1b[2J\r\nmodel     forged",
            "version": "\x9b31m",
            "fallback_reason": "\x07",
        }
        result = self.ask(health_server, json.dumps(hostile).encode())
        assert len(result.stdout.splitlines()) == 5
        assert all(line.isprintable() for line in result.stdout.splitlines())

    def test_no_server_is_a_failure(self, health_server: HTTPServer) -> None:
        port = health_server.server_port
        health_server.server_close()
        result = invoke("status", "--url", f"http://127.0.0.1:{port}/v1")
        assert result.exit_code == ExitCode.FAILURE
        assert result.stderr.startswith(f"prism: no server answers at http://127.0.0.1:{port}/v1: ")
        assert len(result.stderr.splitlines()) == 1


def test_ctrl_c_while_a_command_waits_ends_it_with_130() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"

        with subprocess.Popen(
            [sys.executable, "-m", "prism", "status", "--url", url],
            cwd=own_modules.OUR_ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            connection, _ = silent.accept()

            with connection:
                connection.recv(1)  # the request is on its way, so the command waits for its answer
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=30)

    assert "Traceback" not in errors
    assert process.returncode == ExitCode.INTERRUPTED
