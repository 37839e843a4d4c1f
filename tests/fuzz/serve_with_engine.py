"""`prism serve` with its own worker, its settings from PRISM_ variables."""

import logging
import sys

from prism.http.serve import run_server
from prism.settings import ServeFlags, load_serve_settings

if __name__ == "__main__":
    serve_settings, _ = load_serve_settings(ServeFlags())
    logging.basicConfig(level="INFO")
    sys.exit(run_server(serve_settings))
