"""`prism serve` with the stand-in worker instead of the engine: the whole server as a process, for tests of its life and death.

Takes the settings from PRISM_ variables, like `prism serve`.
"""

import logging
import sys

from prism.http.serve import run_server
from prism.settings import ServeFlags, load_serve_settings
from tests.conftest import on_stand_in

if __name__ == "__main__":
    serve_settings, _ = load_serve_settings(ServeFlags())
    logging.basicConfig(level="INFO")
    sys.exit(run_server(serve_settings, on_stand_in))
