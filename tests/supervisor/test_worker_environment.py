"""What a worker may see of our environment."""

import os
import subprocess
import sys

import pytest

from supervisor.worker_environment import worker_environment

SECRETS = (
    "PRISM_API_KEY",
    "PRISM_API_KEY_FILE",
    "CREDENTIALS_DIRECTORY",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "HF_TOKEN",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
)


@pytest.mark.parametrize("name", SECRETS)
def test_a_worker_sees_no_key_no_proxy_and_no_way_to_the_service_manager(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "secret")
    assert name not in worker_environment()
    assert "secret" not in worker_environment().values()
    assert os.environ[name] == "secret", "ours is not touched"


def test_everything_else_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/x")
    environment = worker_environment()
    assert environment["CUDA_VISIBLE_DEVICES"] == "1"
    assert environment["LD_LIBRARY_PATH"] == "/opt/x"
    assert environment["PATH"] == os.environ["PATH"]


def test_telemetry_and_downloads_are_off() -> None:
    environment = worker_environment()
    assert environment["ORT_DISABLE_TELEMETRY"] == "1"
    assert environment["HF_HUB_OFFLINE"] == "1"


def test_it_is_a_fresh_copy() -> None:
    worker_environment()["MADE_UP"] = "1"
    assert "MADE_UP" not in os.environ
    assert "MADE_UP" not in worker_environment()


@pytest.mark.parametrize("inherited", [None, "", "/opt/somewhere"])
def test_our_packages_are_found_from_any_folder_and_that_folder_is_not_searched(
    monkeypatch: pytest.MonkeyPatch, inherited: str | None
) -> None:
    if inherited is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", inherited)

    environment = worker_environment()
    code = "import gpu_worker, sys; print('' in sys.path, sys.path)"
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd="/", capture_output=True, text=True, timeout=30, check=True
    )
    assert result.stdout.startswith("False ")
    assert inherited is None or inherited in environment["PYTHONPATH"]
    assert "" not in environment["PYTHONPATH"].split(os.pathsep)
