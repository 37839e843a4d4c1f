"""How fast layouts are beside each other: one step of each in turn, so that all see the same machine. Called by `command.py`.

A rate is of the tenth percentile of the times: what a step takes when nothing is in its way. A median of a busy machine measures others.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.layouts.variants import Written

WIDTHS = (1, 2, 4, 8)
_PROMPT = 40
_STEPS = 25
_SLICE = 64
_SLICES = 3
_MOST_PREFILL_STEPS = 30
_IDS = np.random.default_rng(0).integers(100, 40_000, (max(WIDTHS), 2 * _PROMPT + _SLICES * _SLICE)).astype(np.int32)


class _Pace:
    """The times of one layout. The engine's library has no type information."""

    def __init__(self, written: Written) -> None:
        import onnxruntime_genai as og

        self._og = og
        self._model = og.Model(str(written.ordinary))
        self._engine = og.Engine(og.Model(str(written.paged)))
        self._buffer = self._engine.create_event_buffer(64)
        self._requests: list[Any] = []
        self._generator: Any = None
        self.paged: dict[int, list[float]] = {width: [] for width in WIDTHS}
        self.prefill: list[float] = []
        self.decode: list[float] = []

    def begin_paged(self, width: int) -> None:
        """Start so many requests, and read their prompts."""
        for ids in _IDS[:width]:
            request = self._engine.create_request()
            options = self._og.TurnOptions(request)
            options.set_do_sample(False)
            options.set_max_generated_tokens(10 * _STEPS)
            request.begin_turn(ids[:_PROMPT], options)
            self._requests.append(request)

        for _ in range(_MOST_PREFILL_STEPS):
            if self._tokens_of_step() == width:
                return

    def step_paged(self, width: int) -> None:
        """One step, whose time counts when every request got a token in it."""
        begun_at = time.perf_counter()

        if self._tokens_of_step() == width:
            self.paged[width].append(time.perf_counter() - begun_at)

    def end_paged(self) -> None:
        """Make room for the next round."""
        for request in self._requests:
            request.close()

        self._requests.clear()

    def begin_ordinary(self) -> None:
        """A fresh sequence."""
        params = self._og.GeneratorParams(self._model)
        params.set_search_options(max_length=_SLICES * _SLICE + 2 * _STEPS, do_sample=False, min_length=1000)
        self._generator = self._og.Generator(self._model, params)

    def feed_slice(self, number: int) -> None:
        """Read a slice of the prompt."""
        begun_at = time.perf_counter()
        self._generator.append_tokens(_IDS[0, number * _SLICE : (number + 1) * _SLICE])
        self.prefill.append(time.perf_counter() - begun_at)

    def step_ordinary(self, number: int) -> None:
        """One token. The first is there already: the prompt's last step made its logits."""
        begun_at = time.perf_counter()
        self._generator.generate_next_token()

        if number > 0:
            self.decode.append(time.perf_counter() - begun_at)

    def figures(self) -> dict[str, object]:
        """Tokens a second."""
        paged = {width: width / _undisturbed(times) for width, times in self.paged.items()}

        return {
            "tokens_per_s": round(1 / _undisturbed(self.decode), 1),
            "prefill_tokens_per_s": round(_SLICE / _undisturbed(self.prefill)),
            "paged_tokens_per_s": {str(width): round(rate, 1) for width, rate in paged.items()},
            "paged_4_over_1": round(paged[4] / paged[1], 2),
        }

    def _tokens_of_step(self) -> int:
        token = int(self._og.EngineEventFlags.TOKEN)

        return sum(1 for event in self._engine.run(self._buffer) if int(event.flags) & token)


def measure_pace(layouts: Sequence[Written], rounds: int) -> dict[str, dict[str, object]]:
    """The figures of each layout by its name."""
    paces = {layout.name: _Pace(layout) for layout in layouts}

    for _ in range(rounds):
        _round_of_paged(list(paces.values()))
        _round_of_ordinary(list(paces.values()))

    return {name: pace.figures() for name, pace in paces.items()}


def _round_of_paged(paces: Sequence[_Pace]) -> None:
    for width in WIDTHS:
        for pace in paces:
            pace.begin_paged(width)

        for _ in range(_STEPS):
            for pace in paces:
                pace.step_paged(width)

        for pace in paces:
            pace.end_paged()


def _round_of_ordinary(paces: Sequence[_Pace]) -> None:
    for pace in paces:
        pace.begin_ordinary()

    for number in range(_SLICES):
        for pace in paces:
            pace.feed_slice(number)

    for number in range(_STEPS):
        for pace in paces:
            pace.step_ordinary(number)


def _undisturbed(times: Sequence[float]) -> float:
    return float(np.quantile(times, 0.1))
