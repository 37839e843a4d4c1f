"""Looks at everything that serving needs, and says what is wrong. Called by `prism doctor`; changes nothing.

The engine and the NVIDIA driver are asked by programs of their own, since native code can block or end the process that
loads it. Blocks for as long as those take, each with a time limit.
"""

import json
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from prism import own_modules
from prism.catalog import DEMO_MODEL, Catalog
from prism.setting_source import SettingsError
from prism.settings import ServeFlags, load_model_paths, load_ollama_url, load_serve_settings
from supervisor.worker_environment import worker_environment

if TYPE_CHECKING:
    from prism.nvidia_report import NvidiaDevice, NvidiaReport

_ENGINE_TIMEOUT_S = 60.0
_DRIVER_TIMEOUT_S = 15.0
_ENGINE_PROGRAM = "import onnxruntime_genai; print(onnxruntime_genai.__version__)"
_NAMES_SHOWN = 10


class Verdict(StrEnum):
    """What a check found."""

    OK = "ok"
    NOTE = "note"  # worth knowing; serving works
    FAILED = "failed"  # serving does not work


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    verdict: Verdict
    detail: str


def all_checks() -> tuple[Callable[[], Check], ...]:
    """Return the checks in the order in which they are to be shown."""
    return (check_python, check_packages, check_settings, check_engine, check_nvidia, check_models, check_ollama)


def check_python() -> Check:
    """Say which Python runs."""
    return Check("python", Verdict.OK, f"{platform.python_version()} at {sys.executable}")


def check_packages() -> Check:
    """Make sure that the four packages are ours."""
    foreign = own_modules.foreign_packages()

    if foreign:
        return Check("packages", Verdict.FAILED, own_modules.describe(foreign))

    return Check("packages", Verdict.OK, f"{', '.join(own_modules.OUR_PACKAGES)} in {own_modules.OUR_ROOT}")


def check_settings() -> Check:
    """Read the variables as `prism serve` would."""
    try:
        _, warnings = load_serve_settings(ServeFlags())
    except SettingsError as error:
        return Check("settings", Verdict.FAILED, str(error))

    return Check("settings", Verdict.NOTE, "; ".join(warnings)) if warnings else Check("settings", Verdict.OK, "valid")


def check_engine() -> Check:
    """Import the engine as a worker would."""
    try:
        return Check("engine", Verdict.OK, f"onnxruntime-genai {_ask(['-c', _ENGINE_PROGRAM], _ENGINE_TIMEOUT_S)}")
    except _NoAnswer as error:
        reason = str(error)

    if "No module named 'onnxruntime_genai'" in reason:
        return Check("engine", Verdict.FAILED, "onnxruntime-genai is missing; the extras `cpu` and `cuda` bring it")

    return Check("engine", Verdict.FAILED, f"onnxruntime-genai cannot be imported: {reason}")


def check_nvidia() -> Check:
    """Ask the driver for its devices. None is no fault: models then run on the CPU."""
    try:
        report: NvidiaReport = json.loads(_ask(["-m", "prism.nvidia_report"], _DRIVER_TIMEOUT_S))
    except (_NoAnswer, ValueError) as error:
        return Check("nvidia", Verdict.NOTE, f"the driver does not answer: {error}")

    if not report["devices"]:
        reason = report["error"] or "the driver sees none"
        return Check("nvidia", Verdict.NOTE, f"no device, models run on the CPU ({reason})")

    devices = [_describe(device) for device in report["devices"]]
    return Check("nvidia", Verdict.OK, "; ".join([*devices, report["error"]] if report["error"] else devices))


def _describe(device: "NvidiaDevice") -> str:
    if device["vram_total_mb"] is None:
        return f"#{device['index']} {device['name']}"

    return f"#{device['index']} {device['name']}, {device['vram_free_mb']} of {device['vram_total_mb']} MB free"


def check_ollama() -> Check:
    """Ask the Ollama daemon for its models, where OLLAMA_HOST says that it is. None is no fault."""
    # Imported here: an HTTP client is slow to import, and the other checks need none.
    from prism.ollama.ask_once import ask_for_models
    from prism.ollama.errors import OllamaError

    try:
        url = load_ollama_url()
    except SettingsError as error:
        return Check("ollama", Verdict.FAILED, str(error))

    try:
        models = ask_for_models(url)
    except OllamaError as error:
        return Check("ollama", Verdict.NOTE, f"not used: {error}")

    return Check("ollama", Verdict.OK, f"{len(models)} models at {url}")


def check_models() -> Check:
    """Look for models where `prism serve` would."""
    try:
        scan = Catalog(load_model_paths().model_dirs).scan()
    except SettingsError as error:
        return Check("models", Verdict.FAILED, str(error))

    skipped = [f"{folder.path} is skipped: {folder.reason}" for folder in scan.skipped]
    names = [model.id for model in scan.models]

    if not names:
        return Check(
            "models", Verdict.NOTE, "; ".join([f"none; `prism pull {DEMO_MODEL}` brings a small one", *skipped])
        )

    shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
    found = f"{len(names)} ({shown})"
    return Check("models", Verdict.NOTE if skipped else Verdict.OK, "; ".join([found, *skipped]))


class _NoAnswer(Exception):
    """A program did not do what it was started for. The message is the last line that it wrote, or how it ended."""


def _ask(arguments: Sequence[str], timeout_s: float) -> str:
    """Return what the program printed. Raises _NoAnswer."""
    try:
        ended = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            check=False,
            cwd="/",
            env=worker_environment(),
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise _NoAnswer(f"no answer within {timeout_s:.0f} s") from error
    except OSError as error:
        raise _NoAnswer(str(error)) from error

    if ended.returncode != 0:
        last_words = ended.stderr.strip().splitlines()[-1:]
        raise _NoAnswer(last_words[0] if last_words else f"it ended with status {ended.returncode}")

    return ended.stdout.strip()
