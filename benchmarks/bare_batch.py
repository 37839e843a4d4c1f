"""Several sequences in og.Engine and nothing else, in a process of its own: the other side of `parallel.py`.

As a program: `python -m benchmarks.bare_batch FOLDER`. Reads one JSON object a line ({"prompts", "max_tokens", "joiner", "join_after"}; the
joiner is one more prompt, or null, which comes after so many tokens of the first), generates greedily, and writes {"times"}: when each
token of each prompt came, on the monotonic clock, the joiner last.
"""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_EVENTS = 64


class _Batch:
    """The shortest loop that answers several. The library has no type information."""

    def __init__(self, og: Any, folder: str) -> None:
        model = og.Model(folder)
        self._og = og
        self._tokenizer = og.Tokenizer(model)
        self._engine = og.Engine(model)
        self._buffer = self._engine.create_event_buffer(_EVENTS)
        self._running: dict[Any, list[float]] = {}

    def answer(self, prompts: Sequence[str], most: int, joiner: str | None, join_after: int) -> list[list[float]]:
        """When each token came."""
        times = [self._begin(prompt, most) for prompt in prompts]

        while self._running:
            self._step()

            if joiner is not None and len(times[0]) >= join_after:
                times.append(self._begin(joiner, 1))
                joiner = None

        return times

    def _begin(self, prompt: str, most: int) -> list[float]:
        request = self._engine.create_request()
        options = self._og.TurnOptions(request)
        options.set_do_sample(False)
        options.set_max_generated_tokens(most)
        request.begin_turn(self._tokenizer.encode(prompt), options)
        self._running[request] = []

        return self._running[request]

    def _step(self) -> None:
        flags = self._og.EngineEventFlags

        for event in self._engine.run(self._buffer):
            if int(event.flags) & int(flags.TOKEN):
                self._running[event.request].append(time.monotonic())

            if int(event.flags) & int(flags.TURN_FINISHED):
                del self._running[event.request]
                event.request.close()


def main(folder: str) -> None:
    """Load, then answer until the input ends."""
    import onnxruntime_genai as og

    batch = _Batch(og, folder)

    for line in sys.stdin:
        asked = json.loads(line)
        times = batch.answer(asked["prompts"], asked["max_tokens"], asked["joiner"], asked["join_after"])
        print(json.dumps({"times": times}), flush=True)


@dataclass(frozen=True, slots=True)
class BareBatch:
    """The program above as a process."""

    process: "subprocess.Popen[str]"

    def answer(
        self, prompts: Sequence[str], max_tokens: int, joiner: str | None = None, join_after: int = 0
    ) -> list[list[float]]:
        """When each token of each prompt came, the joiner last."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        asked = {"prompts": prompts, "max_tokens": max_tokens, "joiner": joiner, "join_after": join_after}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        times: list[list[float]] = json.loads(self.process.stdout.readline())["times"]

        return times


@contextlib.contextmanager
def bare_batch(folder: Path) -> Iterator[BareBatch]:
    """The engine with the model loaded and warm."""
    command = [sys.executable, "-m", "benchmarks.bare_batch", str(folder)]

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        batch = BareBatch(process)
        batch.answer(["Hi"], 8)
        yield batch
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


if __name__ == "__main__":
    main(sys.argv[1])
