"""The server on the stand-in, with a fault for tests: SIGUSR1 makes its event loop stand still for a while."""

import signal
import sys
import time

from prism.http.serve import run_server
from prism.settings import ServeFlags, load_serve_settings
from tests.conftest import on_stand_in

BLOCKED_S = 0.6


def _block(_number: int, _frame: object) -> None:
    # Handlers of the signal module run in the main thread, in the middle of whatever the loop does.
    sys.stdout.write("blocked\n")
    sys.stdout.flush()
    time.sleep(BLOCKED_S)
    sys.stdout.write("free\n")
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _block)
    sys.exit(run_server(load_serve_settings(ServeFlags())[0], on_stand_in))
