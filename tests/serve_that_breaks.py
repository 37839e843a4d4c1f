"""`prism serve` with the stand-in, and with one part of its own supervision broken: what BREAK names.

Takes the settings from PRISM_ variables. Each part is broken for good, as by a bug of ours.
"""

import logging
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from ipc.front_end import FrontEnd
from prism.http.serve import run_server
from prism.settings import ServeFlags, load_serve_settings
from supervisor.child_process import ChildProcess
from supervisor.progress_watch import ProgressWatch
from supervisor.settling import Settling
from supervisor.turns import Turns
from supervisor.worker import Worker
from tests.conftest import on_stand_in


def breaks(*_: Any) -> NoReturn:  # Any: it stands for methods of any signature
    raise RuntimeError("made-up bug")


async def breaks_later(*_: Any) -> NoReturn:
    raise RuntimeError("made-up bug")


# Where: in a task that buries a worker, in one that settles an abandoned request, in callbacks of the loop, in a handler's last step.
BREAKS: dict[str, Callable[[], None]] = {
    "bury": lambda: setattr(Worker, "_bury", breaks_later),
    "settle": lambda: setattr(Settling, "_settle_request", breaks_later),
    "reap": lambda: setattr(ChildProcess, "_read_rest", breaks),
    "hand on": lambda: setattr(FrontEnd, "_hand_on", breaks),
    "release": lambda: setattr(Turns, "release", breaks),
    "look": lambda: setattr(ProgressWatch, "_read_or_none", breaks),
}


if __name__ == "__main__":
    BREAKS[os.environ["BREAK"]]()
    serve_settings, _ = load_serve_settings(ServeFlags())
    logging.basicConfig(level="INFO")
    sys.exit(run_server(serve_settings, on_stand_in))
