"""`prism serve` on the stand-in as a process that many tests share: started once, its model loaded, and at the end asked to stop."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.raw_http import send

ROOT = Path(__file__).parents[1]
_PATIENCE_S = 20.0


@contextlib.contextmanager
def serving(
    folder: Path, *, preload: str | None = None, program: str = "tests.serve_with_stand_in", **variables: str
) -> Iterator[str]:
    """Give the base URL of a server with the models of `folder`/models.

    It must end with status 0 when asked to, and nothing in its log may be a traceback. program: the module that is run.
    variables: more settings.
    """
    log = folder / "log.txt"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PRISM_")}
    environment |= {
        "PRISM_MODEL_DIRS": str(folder / "models"),
        "PRISM_STATE_DIR": str(folder / "state"),
        "PRISM_PORT": "0",
        "PRISM_DEVICE": "cpu",
        "PYTHONPATH": str(ROOT),
        **({"PRISM_MODEL": preload} if preload else {}),
        **variables,
    }

    with log.open("wb") as log_file:
        process = subprocess.Popen(
            (sys.executable, "-m", program),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log_file,
            env=environment,
            cwd=ROOT,
        )

    try:
        yield _address(process, preload)
    finally:
        process.send_signal(signal.SIGTERM)
        status = _end(process)

    assert status == 0
    assert "Traceback" not in log.read_text(), log.read_text()


def _address(process: "subprocess.Popen[bytes]", preload: str | None) -> str:
    assert process.stdout is not None

    for line in process.stdout:
        if line.startswith(b"Prism is listening on "):
            url = line.split()[-1].decode().removesuffix("/v1")
            _wait_loaded(url, preload)
            return url

    raise AssertionError("the server ended")


def _wait_loaded(url: str, preload: str | None) -> None:
    deadline = time.monotonic() + _PATIENCE_S

    while send(url, "GET", "/health").json["active_model"] != preload:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _end(process: "subprocess.Popen[bytes]") -> int:
    try:
        return process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
    finally:
        assert process.stdout is not None
        process.stdout.close()


def started_server(program: str) -> int:
    """Return the process that runs a program of ours, the last that was started by this one."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    # The kernel lists them in the order of their birth.
    *_, pid = (int(pid) for pid in children if program.encode() in Path(f"/proc/{pid}/cmdline").read_bytes())
    return pid


def write_model(
    folder: Path, name: str, script: Mapping[str, object] | None = None, template: str | None = None
) -> None:
    """Write a model folder that the catalog lists and the stand-in serves."""
    model = folder / "models" / name
    model.mkdir(parents=True)
    (model / "stand_in.json").write_text(json.dumps(script or {}))
    (model / "genai_config.json").write_text(json.dumps({"model": {"type": "llama", "context_length": 4096}}))
    (model / "model.onnx").write_bytes(b"\x08\x0a")
    (model / "tokenizer.json").write_text("{}")

    if template is not None:
        (model / "chat_template.jinja").write_text(template)
