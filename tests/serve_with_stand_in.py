"""`prism serve` with the stand-in worker instead of the engine: the whole server as a process, for tests of its life and death.

Takes the settings from PRISM_ variables, like `prism serve`.
"""

import sys

from prism.http.serve import run_server
from prism.log_lines import set_up_logging
from prism.settings import ServeFlags, load_serve_settings
from tests.conftest import on_stand_in


def main() -> int:
    """Serve until told to stop; return the exit status."""
    settings, _ = load_serve_settings(ServeFlags())
    set_up_logging(settings.log_level)
    return run_server(settings, on_stand_in)


if __name__ == "__main__":
    sys.exit(main())
