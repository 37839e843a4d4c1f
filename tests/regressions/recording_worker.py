"""Our worker with the real engine, which also writes down how many tokens each native call is fed.

A worker's command for `tests.regressions.serve_recorded`; FEEDS names the file, one number a line.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gpu_worker.__main__ import main
from gpu_worker.genai_sequence import GenAiSequence

_feed = GenAiSequence.feed


def _recorded_feed(self: GenAiSequence, tokens: Sequence[int]) -> None:
    with Path(os.environ["FEEDS"]).open("a") as file:
        file.write(f"{len(tokens)}\n")

    _feed(self, tokens)


if __name__ == "__main__":
    GenAiSequence.feed = _recorded_feed  # type: ignore[method-assign]  # what this program is for
    status = main()
    sys.stderr.flush()
    os._exit(status)
