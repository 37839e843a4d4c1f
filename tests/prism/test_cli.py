"""How the program starts and ends, and what `serve` hands on."""

import os
import subprocess
import sys
import types
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from prism import __version__, own_modules
from prism.cli import cli, run
from prism.exit_codes import ExitCode
from prism.own_modules import ForeignPackage
from prism.settings import ServeSettings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of the machine that runs the tests, and an empty home."""
    for name in [name for name in os.environ if name.startswith("PRISM_")]:
        monkeypatch.delenv(name)

    monkeypatch.delenv("OLLAMA_HOST", raising=False)

    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def run_as_process(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "prism", *arguments],
        capture_output=True,
        cwd=own_modules.OUR_ROOT,
        env={**os.environ, **variables},
        text=True,
        timeout=60,
        check=False,
    )


class TestTheProgram:
    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (["--version"], 0),
            (["--help"], 0),
            (["serve", "--help"], 0),
            ([], 1),
            (["--no-such-flag"], 2),
            (["no-such-command"], 2),
            (["pull"], 2),
            (["serve", "--no-such-flag"], 2),
            (["serve", "--port", "x"], 2),
            (["pull", "unknown-model"], 1),
            (["list"], 0),
        ],
    )
    def test_exit_codes(self, arguments: Sequence[str], code: int) -> None:
        ended = run_as_process(*arguments)
        assert ended.returncode == code, ended.stderr
        assert "Traceback" not in ended.stderr

    def test_the_version_is_the_packages(self) -> None:
        assert run_as_process("--version").stdout == f"prism {__version__}\n"

    def test_without_a_command_help_is_shown(self) -> None:
        ended = run_as_process()
        assert "Commands:" in ended.stdout
        assert [name for name in ("serve", "list", "pull", "status", "doctor") if name not in ended.stdout] == []

    def test_bad_variables_are_a_matter_of_configuration(self) -> None:
        ended = run_as_process("serve", PRISM_PORT="x", PRISM_DEVICE="tpu")
        assert ended.returncode == ExitCode.CONFIGURATION
        assert ended.stderr.splitlines()[0] == "prism: 2 settings cannot be used:"
        assert "PRISM_PORT" in ended.stderr
        assert "PRISM_DEVICE" in ended.stderr

    def test_bad_server_variables_do_not_hinder_other_commands(self) -> None:
        assert run_as_process("list", PRISM_PORT="x").returncode == 0

    def test_starting_loads_nothing_heavy(self) -> None:
        program = "import sys, prism.cli; print(*sys.modules)"
        ended = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, cwd=own_modules.OUR_ROOT, text=True, check=True
        )
        loaded = set(ended.stdout.split())
        assert not loaded & {
            "aiohttp",
            "asyncio",
            "importlib.metadata",
            "msgspec",
            "numpy",
            "onnxruntime_genai",
            "rich",
            "zmq",
        }

    def test_an_unexpected_fault_is_one_line(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail() -> None:
            raise OSError("no memory for that")

        monkeypatch.setattr("prism.cli_models._paths", fail)
        assert run(["list"]) == ExitCode.FAILURE
        assert capsys.readouterr().err.splitlines() == [
            "prism: unexpected OSError: no memory for that (`prism --debug ...` shows where)"
        ]
        assert run(["--debug", "list"]) == ExitCode.FAILURE
        assert "Traceback" in capsys.readouterr().err

    def test_an_import_that_fails_in_a_foreign_package_says_so(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail() -> None:
            raise ImportError("no name 'messages'")

        foreign = (ForeignPackage("ipc", "the package `ipc` is that of the distribution ipc 1.2.1"),)
        monkeypatch.setattr("prism.cli_models._paths", fail)
        monkeypatch.setattr("prism.own_modules.foreign_packages", lambda: foreign)
        assert run(["list"]) == ExitCode.CONFIGURATION
        assert "distribution ipc 1.2.1" in capsys.readouterr().err


class TestServe:
    @pytest.fixture
    def started(self, monkeypatch: pytest.MonkeyPatch) -> list[ServeSettings]:
        """Stand in for the server's entry point; the list takes the settings that it was given."""
        given: list[ServeSettings] = []

        def run_server(settings: ServeSettings) -> int:
            given.append(settings)
            return ExitCode.TEMPORARY

        module = types.ModuleType("prism.http.serve")
        module.run_server = run_server  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "prism.http.serve", module)
        monkeypatch.setattr("logging.basicConfig", lambda **_: None)
        return given

    def test_the_servers_exit_code_is_the_commands(self, started: list[ServeSettings]) -> None:
        assert run(["serve", "--port", "0"]) == ExitCode.TEMPORARY
        assert started[0].port == 0

    def test_every_flag_reaches_the_settings(self, started: list[ServeSettings], tmp_path: Path) -> None:
        (tmp_path / "keys").write_text("second\n")
        flags = (
            "--host 127.0.0.2 --port 7 --device cpu --model tiny --api-key first --cors-origin http://a.example "
            "--cors-origin * --queue-timeout 1 --max-queue 2 --sse-ping 3 --prefill-chunk 4 --kv-slots 5 --allow-special-tokens "
            "--spare-worker on "
            f"--log-level error --api-key-file {tmp_path / 'keys'}"
        )
        run(["serve", *flags.split()])
        (settings,) = started
        assert settings == ServeSettings(
            state_dir=settings.state_dir,
            model_dirs=settings.model_dirs,
            runtime_dir=settings.runtime_dir,
            host="127.0.0.2",
            port=7,
            device=settings.device,
            preload_model="tiny",
            api_keys=("first", "second"),
            cors_origins=("http://a.example", "*"),
            queue_timeout_s=1,
            max_queue=2,
            sse_ping_s=3,
            prefill_chunk=4,
            kv_slots=5,
            has_spare_worker=True,
            allows_special_tokens=True,
            log_level=settings.log_level,
        )
        assert (settings.device, settings.log_level) == ("cpu", "error")

    def test_unknown_variables_are_warned_of(
        self, started: list[ServeSettings], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("PRISM_PROT", "1")
        run(["serve"])
        assert len(started) == 1
        assert [record.message for record in caplog.records] == [
            "PRISM_PROT is set, but nothing reads it; is PRISM_PORT meant?"
        ]

    @pytest.mark.parametrize("command", ["serve", "doctor"])
    def test_a_foreign_package_stops_it(
        self, command: str, started: list[ServeSettings], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        foreign = (
            ForeignPackage("supervisor", "the package `supervisor` is that of the distribution supervisor 4.3.0"),
        )
        monkeypatch.setattr("prism.own_modules.foreign_packages", lambda: foreign)
        result = invoke(command)
        assert (result.exit_code, started) == (ExitCode.CONFIGURATION, [])
        assert "distribution supervisor 4.3.0" in result.stderr
