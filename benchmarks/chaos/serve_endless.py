"""`prism serve` on the engine that starts workers again however often they end: a run of kills would else be a run of refusals.

Takes the settings from PRISM_ variables.
"""

import logging
import sys
from dataclasses import replace

from prism.http.serve import run_server
from prism.settings import ServeFlags, load_serve_settings
from supervisor.poison_prompts import PoisonBounds
from supervisor.restart_settings import RestartSettings
from supervisor.settings import SupervisorSettings

_RESTARTS = RestartSettings(
    first_backoff_s=0.001, longest_backoff_s=0.001, deaths_to_open=1_000_000, failed_loads_to_open=1_000_000
)


def _endless(settings: SupervisorSettings) -> SupervisorSettings:
    return replace(settings, restart=_RESTARTS, poison=PoisonBounds(deaths_to_refuse=1_000_000))


if __name__ == "__main__":
    serve_settings, _ = load_serve_settings(ServeFlags())
    logging.basicConfig(level="INFO")
    sys.exit(run_server(serve_settings, _endless))
