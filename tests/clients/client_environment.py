"""Where a client is installed: a folder of its own with the newest releases, without our packages. Blocks for its downloads."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.clients.served_prism import ServedPrism

SCRIPTS = Path(__file__).parent / "scripts"

_INSTALL_TIMEOUT_S = 600
_RUN_TIMEOUT_S = 240
# What would lead a client to our environment, to our settings, or to a server that is not the test's.
_KEPT_OUT = ("PRISM_", "OPENAI_", "PYTHON", "VIRTUAL_ENV", "LLM_", "BENCHRIG_")


class ClientFailed(AssertionError):
    """A command of a client ended with another status than 0. The message holds all that it wrote."""


class ClientEnvironment:
    """A folder in which commands of a client run. path: what is put before PATH."""

    def __init__(self, folder: Path, path: Path, variables: Mapping[str, str]) -> None:
        self.folder = folder
        self._path = path
        self._variables = variables

    def run(self, *command: str, **variables: str) -> str:
        """Return what a command wrote to stdout. Raises ClientFailed."""
        environment = _outer() | dict(self._variables) | variables
        environment["PATH"] = f"{self._path}{os.pathsep}{environment['PATH']}"
        return _run((str(self._path / command[0]), *command[1:]), self.folder, environment, _RUN_TIMEOUT_S)

    def run_script(self, interpreter: str, name: str, **variables: str) -> dict[str, Any]:  # Any: JSON of any shape
        """Return the line of JSON that a script of ours printed."""
        # Beside the packages: Node looks for them from where the script is.
        script = shutil.copy(SCRIPTS / name, self.folder)
        lines = self.run(interpreter, str(script), **variables).splitlines()
        seen: dict[str, Any] = json.loads(lines[-1])
        return seen


def python_environment(folder: Path, server: ServedPrism, packages: Sequence[str]) -> ClientEnvironment:
    """Make a virtual environment with `packages`, none of ours."""
    _run((sys.executable, "-m", "venv", str(folder / "venv")), folder, _outer(), _INSTALL_TIMEOUT_S)
    path = folder / "venv" / "bin"
    install = (str(path / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *packages)
    _run(install, folder, _outer(), _INSTALL_TIMEOUT_S)
    return ClientEnvironment(folder, path, _variables(server))


def node_environment(folder: Path, server: ServedPrism, packages: Sequence[str]) -> ClientEnvironment:
    """Install `packages` into a folder for Node, which must be on this machine."""
    node, npm = shutil.which("node"), shutil.which("npm")
    assert node is not None
    assert npm is not None
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    _run((npm, "install", "--no-audit", "--no-fund", *packages), folder, _outer(), _INSTALL_TIMEOUT_S)
    return ClientEnvironment(folder, Path(node).parent, _variables(server))


def _variables(server: ServedPrism) -> dict[str, str]:
    return {
        "PRISM_URL": server.url,
        "PRISM_KEY": server.key,
        "PRISM_PAGE": server.page,
        "PRISM_MODEL": "smollm2-135m",
        "PRISM_TOOL_MODEL": "calls-weather",
    }


def _outer() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_KEPT_OUT)}


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_s: float) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )

    if done.returncode != 0:
        raise ClientFailed(f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")

    return done.stdout
