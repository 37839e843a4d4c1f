"""`prism serve` on the stand-in with room for 128 files, all of which it uses up from SIGUSR1 to SIGUSR2: a process without descriptors.

HELD_DESCRIPTORS of them are in use from the beginning. Takes the settings from PRISM_ variables, like `prism serve`.
"""

import contextlib
import logging
import os
import resource
import signal
import sys

from prism.http.serve import run_server
from prism.settings import ServeFlags, load_serve_settings
from tests.conftest import on_stand_in

LIMIT = 128
_held: list[int] = []


def _use_up(_: int, __: object) -> None:
    with contextlib.suppress(OSError):
        while True:
            _held.append(os.open(os.devnull, os.O_RDONLY))


def _give_back(_: int, __: object) -> None:
    while _held:
        os.close(_held.pop())


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    _held += [os.open(os.devnull, os.O_RDONLY) for _ in range(int(os.environ.get("HELD_DESCRIPTORS", "0")))]
    signal.signal(signal.SIGUSR1, _use_up)
    signal.signal(signal.SIGUSR2, _give_back)
    serve_settings, _ = load_serve_settings(ServeFlags())
    logging.basicConfig(level="INFO")
    sys.exit(run_server(serve_settings, on_stand_in))
