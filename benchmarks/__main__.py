"""`python -m benchmarks [GROUP ...]`: measure, and print one JSON line for each claim. Exit status 1 when an aim is missed.

`python -m benchmarks chaos [--minutes M] …`: see `benchmarks.chaos.command`.
`python -m benchmarks layouts [NAME ...]`: see `benchmarks.layouts.command`.
"""

import argparse
import platform
import sys
from pathlib import Path

from benchmarks.chaos.command import main as run_chaos
from benchmarks.crowd import measure_crowd
from benchmarks.layouts.command import main as compare_layouts
from benchmarks.life import measure_life
from benchmarks.ollama import measure_ollama
from benchmarks.parallel import measure_parallel
from benchmarks.reuse import measure_reuse
from benchmarks.schema import measure_schema
from benchmarks.server import DEMO_MODEL
from benchmarks.speed import measure_speed
from prism.catalog import Catalog
from prism.settings import load_model_paths

_GROUPS = {
    "speed": measure_speed,
    "schema": measure_schema,
    "reuse": measure_reuse,
    "life": measure_life,
    "parallel": measure_parallel,
    "crowd": measure_crowd,
    "ollama": measure_ollama,
}


def main() -> int:
    """Run the groups that were named, or all; or chaos, which has flags of its own."""
    if sys.argv[1:2] == ["chaos"]:
        return run_chaos(sys.argv[2:])

    if sys.argv[1:2] == ["layouts"]:
        return compare_layouts(sys.argv[2:])

    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure speed and cost.")
    parser.add_argument("groups", nargs="*", choices=[[], *_GROUPS], metavar="|".join(_GROUPS))
    groups = parser.parse_args().groups or list(_GROUPS)
    models = _models_dir()
    print(f"# {platform.processor() or platform.machine()}, Python {platform.python_version()}, model {DEMO_MODEL}")
    is_met = True

    for group in groups:
        for result in _GROUPS[group](models):
            print(result.line(), flush=True)
            is_met = is_met and result.is_met

    return 0 if is_met else 1


def _models_dir() -> Path:
    """Return the folder that holds the demo model."""
    return Catalog(load_model_paths().model_dirs).resolve(DEMO_MODEL).path.parent


if __name__ == "__main__":
    sys.exit(main())
