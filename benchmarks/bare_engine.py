"""The other side of every comparison: ONNX Runtime GenAI and nothing else, in a process of its own.

As a program: `python -m benchmarks.bare_engine FOLDER [FD]`. Reads one JSON object a line ({"prompt", "max_tokens"}), generates greedily,
and writes {"tokens", "ttft_s", "tokens_per_s", "text"}; a byte goes to FD for each token. The first line that it writes is {"load_s"}.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def generate(og: Any, model: Any, tokenizer: Any, prompt: str, max_tokens: int, token_fd: int | None) -> dict[str, Any]:
    """The shortest loop that produces text."""
    begun_at = time.monotonic()
    ids = tokenizer.encode(prompt)
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=len(ids) + max_tokens, do_sample=False)
    generator = og.Generator(model, params)
    stream = tokenizer.create_stream()
    generator.append_tokens(ids)
    pieces = []
    first_at = last_at = 0.0
    tokens = 0

    while not generator.is_done():
        generator.generate_next_token()
        pieces.append(stream.decode(generator.get_next_tokens()[0]))
        last_at = time.monotonic()
        first_at = first_at or last_at
        tokens += 1

        if token_fd is not None:
            os.write(token_fd, b"t")

    rate = (tokens - 1) / (last_at - first_at) if tokens > 1 else 0.0
    return {"tokens": tokens, "ttft_s": first_at - begun_at, "tokens_per_s": rate, "text": "".join(pieces)}


def main(folder: str, token_fd: int | None) -> None:
    """Load, then answer until the input ends."""
    import onnxruntime_genai as og

    begun_at = time.monotonic()
    model = og.Model(folder)
    tokenizer = og.Tokenizer(model)
    print(json.dumps({"load_s": time.monotonic() - begun_at}), flush=True)

    for line in sys.stdin:
        request = json.loads(line)
        print(
            json.dumps(generate(og, model, tokenizer, request["prompt"], request["max_tokens"], token_fd)), flush=True
        )


class BareEngine:
    """The program above as a process."""

    def __init__(self, process: "subprocess.Popen[str]", load_s: float) -> None:
        self._process = process
        self.load_s = load_s

    def generate(self, prompt: str, max_tokens: int) -> dict[str, Any]:
        """Return the figures of one greedy generation."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"prompt": prompt, "max_tokens": max_tokens}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@contextlib.contextmanager
def bare_engine(folder: Path, token_fd: int | None = None) -> Iterator[BareEngine]:
    """The engine with the model loaded and warm. token_fd: a byte is written there for each token."""
    fds = () if token_fd is None else (token_fd,)
    command = [sys.executable, "-m", "benchmarks.bare_engine", str(folder), *map(str, fds)]

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=fds) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        engine = BareEngine(process, float(json.loads(process.stdout.readline())["load_s"]))
        engine.generate("Hi", 8)
        yield engine
        process.stdin.close()
        process.wait(30)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
