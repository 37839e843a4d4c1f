"""`prism serve` with the recording worker. Takes the settings from PRISM_ variables, like `prism serve`."""

import sys
from pathlib import Path

from prism.http.serve import run_server
from prism.settings import ServeFlags, load_serve_settings

RECORDING = (sys.executable, str(Path(__file__).parent / "recording_worker.py"))

if __name__ == "__main__":
    serve_settings, _ = load_serve_settings(ServeFlags())
    sys.exit(run_server(serve_settings, RECORDING))
