"""`prism serve` with real models and a key, as the process that a user starts. Blocks until it listens, and until it has ended."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEY = "key-of-the-test"
PAGE = "http://page.example"

_END_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class ServedPrism:
    """A server that listens. url: with /v1. page: the origin of pages that may use it."""

    url: str
    key: str
    page: str


@contextlib.contextmanager
def serving(models_dir: Path, work_dir: Path) -> Iterator[ServedPrism]:
    """Run a server on a free port. It must end with status 0 when asked to, and its log may hold no traceback."""
    log = work_dir / "server.log"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PRISM_")}
    environment |= {
        "PRISM_MODEL_DIRS": str(models_dir),
        "PRISM_STATE_DIR": str(work_dir / "state"),
        "PRISM_API_KEY": KEY,
        "PRISM_CORS_ORIGINS": PAGE,
        "PRISM_DEVICE": "cpu",
        "PYTHONPATH": str(ROOT),
    }

    with log.open("wb") as log_file:
        process = subprocess.Popen(
            (sys.executable, "-m", "prism", "serve", "--port", "0"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log_file,
            env=environment,
            cwd=work_dir,
        )

    try:
        yield ServedPrism(_url(process, log), KEY, PAGE)
    finally:
        process.send_signal(signal.SIGTERM)
        status = _end(process)

    assert status == 0, log.read_text()
    assert "Traceback" not in log.read_text(), log.read_text()


def _url(process: "subprocess.Popen[bytes]", log: Path) -> str:
    assert process.stdout is not None

    for line in process.stdout:
        if line.startswith(b"Prism is listening on "):
            return line.split()[-1].decode()

    raise AssertionError(f"the server ended: {log.read_text()}")


def _end(process: "subprocess.Popen[bytes]") -> int:
    try:
        return process.wait(_END_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
    finally:
        assert process.stdout is not None
        process.stdout.close()
