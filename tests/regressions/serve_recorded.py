"""`prism serve` with the recording worker. Takes the settings from PRISM_ variables, like `prism serve`."""

import sys
from dataclasses import replace
from pathlib import Path

from prism.http.serve import run_server
from prism.settings import ServeFlags, load_serve_settings
from supervisor.settings import SupervisorSettings

RECORDING = (sys.executable, str(Path(__file__).parent / "recording_worker.py"))


def on_recorder(settings: SupervisorSettings) -> SupervisorSettings:
    """Put the recording worker in place of ours."""
    return replace(settings, worker_command=RECORDING)


if __name__ == "__main__":
    serve_settings, _ = load_serve_settings(ServeFlags())
    sys.exit(run_server(serve_settings, on_recorder))
