"""Real clients against a real server. They are downloaded, so they run only where `PRISM_TEST_CLIENTS=1` asks for them."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prism.pull.demo_model import pull_smollm2
from tests.clients.calling_model import write_calling_model
from tests.clients.served_prism import ServedPrism, serving

_SEEN = pytest.StashKey[list[str]]()

Report = Callable[[dict[str, object]], None]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "clients: installs real clients; runs with PRISM_TEST_CLIENTS=1")
    config.stash[_SEEN] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("PRISM_TEST_CLIENTS") == "1":
        return

    for item in items:
        if item.get_closest_marker("clients") is not None:
            item.add_marker(pytest.mark.skip(reason="PRISM_TEST_CLIENTS=1 runs it"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash[_SEEN]:
        terminalreporter.section("what the clients saw")
        terminalreporter.write("\n".join(lines) + "\n")


@pytest.fixture
def report(pytestconfig: pytest.Config) -> Report:
    """Return a function that keeps what a client saw for the end of the run."""
    return lambda seen: pytestconfig.stash[_SEEN].append(json.dumps(seen, ensure_ascii=False))


@pytest.fixture(scope="session")
def models_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the demo model, which answers, and `calls-weather`, which calls a tool."""
    cache = Path(os.environ.get("PRISM_TEST_MODEL_CACHE", "~/.cache/prism-tests")).expanduser()
    folder = tmp_path_factory.mktemp("models")
    demo = pull_smollm2(cache, progress=lambda *_: None)
    (folder / demo.name).symlink_to(demo)
    write_calling_model(folder / "calls-weather")
    return folder


@pytest.fixture
def server(models_dir: Path, tmp_path: Path) -> Iterator[ServedPrism]:
    """A server of the test's own."""
    with serving(models_dir, tmp_path) as served:
        yield served


@pytest.fixture
def folder() -> Iterator[Path]:
    """A place for a client. It is gone at the end, since some of them are large."""
    with tempfile.TemporaryDirectory(prefix="prism-client-") as name:
        yield Path(name)
