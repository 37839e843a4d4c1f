"""The server under test: `prism serve` as a process, with small models, and what /proc says of it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prism.export.genai_config import DynamicBatching
from prism.export.tiny_model import write_tiny_model

_ROOT = Path(__file__).parents[2]
STAND_IN, ENDLESS, AS_SHIPPED = ("tests.serve_with_stand_in",), ("benchmarks.chaos.serve_endless",), ("prism", "serve")
_WORKERS = (b"gpu_worker", b"stand_in_worker")
_AHEAD = b"--parent-pid"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_START_S = 30.0
_END_S = 30.0
_MOST_AT_ONCE = 8
MODELS = ("one", "two", "three", "four")
# Not ours to hand on: where sockets are, and what a service manager says to its service.
_LEFT_OUT = ("RUNTIME_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


@dataclass(frozen=True, slots=True)
class Ended:
    """status: of the server. left: what was still there after it. words: its log."""

    status: int | None
    left: Sequence[str]
    words: str


class Target:
    """A running server. Made by `target`."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]", port: int) -> None:
        self._folder = folder
        self._process = process
        self.pid = process.pid
        self.port = port
        self.worker_pids: set[int] = set()

    @property
    def is_running(self) -> bool:
        """Whether the front lives."""
        return self._process.poll() is None

    def events(self) -> list[dict[str, Any]]:
        """Return the log of events so far."""
        return [json.loads(line) for line in (self._folder / "events.jsonl").read_text().splitlines()]

    def descriptors(self) -> int:
        """How many the front has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def rss_mb(self) -> float:
        """Resident memory of the front, in MiB."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE_BYTES / 2**20

    def workers(self) -> set[int]:
        """Return the worker processes that live now, but for one that waits for a model; zombies do not live."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        found = {int(pid) for pid in children if _is_worker(int(pid))}
        self.worker_pids |= found
        return {pid for pid in found if not self._is_spare(pid)}

    def _is_spare(self, pid: int) -> bool:
        """Say whether a process was started ahead of its model, and no worker was made of it yet."""
        return _AHEAD in _command(pid) and f'"pid": {pid}}}\n' not in (self._folder / "events.jsonl").read_text()

    def end(self) -> Ended:
        """End the server as a service manager would, and look at what it leaves."""
        known = set(self.worker_pids) | {event["pid"] for event in self.events() if event["event"] == "started"}
        self._process.send_signal(signal.SIGTERM)
        status = self._wait()
        left = [f"worker process {pid}" for pid in known if _is_worker(pid)]
        left += [f"file {path}" for path in (self._folder / "run").rglob("*")]
        left += [f"record {path}" for path in (self._folder / "state").rglob("residents/*.json")]
        return Ended(status, left, (self._folder / "log.txt").read_text(errors="replace"))

    def _wait(self) -> int | None:
        try:
            return self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return None


def _is_worker(pid: int) -> bool:
    try:
        is_dead = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return False

    return not is_dead and any(name in _command(pid) for name in _WORKERS)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@contextlib.contextmanager
def target(folder: Path, program: tuple[str, ...], variables: Mapping[str, str]) -> Iterator[Target]:
    """Start a server with the models of `MODELS`; killed at the end if it did not end before. folder: empty, with a short path."""
    (folder / "run").mkdir(mode=0o700, parents=True)

    for number, name in enumerate(MODELS):
        _write_model(folder / "models" / name, number, is_real=program != STAND_IN)

    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PRISM_") and name not in _LEFT_OUT
    }
    environment |= {
        "PRISM_MODEL_DIRS": str(folder / "models"),
        "PRISM_STATE_DIR": str(folder / "state"),
        "PRISM_EVENT_LOG": str(folder / "events.jsonl"),
        "PRISM_PORT": "0",
        "PRISM_DEVICE": "cpu",
        "PRISM_RESOURCE_CHECK": "off",
        "PRISM_SPARE_WORKER": "on",
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "PYTHONPATH": str(_ROOT),
        **variables,
    }

    with (folder / "log.txt").open("wb") as log:
        command = (sys.executable, "-m", *program)
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=_ROOT
        )

    try:
        yield Target(folder, process, _port(process))
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _port(process: "subprocess.Popen[bytes]") -> int:
    assert process.stdout is not None
    deadline = time.monotonic() + _START_S

    while time.monotonic() < deadline and (line := process.stdout.readline()):
        if line.startswith(b"Prism is listening on "):
            return int(line.rpartition(b":")[2].partition(b"/")[0])

    raise RuntimeError("the server did not start")


def _write_model(folder: Path, seed: int, *, is_real: bool) -> None:
    # The first can work on several requests at once, the others on one.
    if is_real:
        write_tiny_model(folder, seed=seed, batching=None if seed else DynamicBatching())
        return

    folder.mkdir(parents=True)
    (folder / "genai_config.json").write_text(json.dumps({"model": {"type": "llama", "context_length": 4096}}))
    (folder / "model.onnx").write_bytes(b"\x08\x0a")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "stand_in.json").write_text(json.dumps({"parallel": 1 if seed else _MOST_AT_ONCE}))
