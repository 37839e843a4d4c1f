"""A paged folder run through og.Engine, several requests at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnxruntime_genai as og

_TOKEN = int(og.EngineEventFlags.TOKEN)
_FINISHED = int(og.EngineEventFlags.TURN_FINISHED)


@dataclass
class _Running:
    request: og.Request
    tokens: list[int] = field(default_factory=list)


class PagedEngine:
    """A loaded model. cached_tokens: of each request that ended, by its name."""

    def __init__(self, folder: Path) -> None:
        self._engine = og.Engine(og.Model(str(folder)))
        self._buffer = self._engine.create_event_buffer(64)
        self.cached_tokens: dict[str, int] = {}

    def answers(
        self, prompts: Mapping[str, Sequence[int]], joins: Mapping[str, int], *, most: int = 40
    ) -> dict[str, list[int]]:
        """The greedy answers; joins: before which step each request comes."""
        waiting = sorted(prompts, key=lambda name: joins[name])
        running: dict[str, _Running] = {}
        answers: dict[str, list[int]] = {}

        for step in range(10_000):
            while waiting and joins[waiting[0]] <= step:
                name = waiting.pop(0)
                running[name] = _Running(self._begin(prompts[name], most))

            if running:
                self._run(running, answers)
            elif not waiting:
                return answers

        raise AssertionError(f"no end: {running}")

    def _begin(self, prompt: Sequence[int], most: int) -> og.Request:
        request = self._engine.create_request()
        options = og.TurnOptions(request)
        options.set_do_sample(False)
        options.set_max_generated_tokens(most)
        request.begin_turn(np.asarray(prompt, np.int32), options)

        return request

    def _run(self, running: dict[str, _Running], answers: dict[str, list[int]]) -> None:
        for event in self._engine.run(self._buffer):
            flags = int(event.flags)

            if not flags & (_TOKEN | _FINISHED):
                # The pool is full: nobody's news, and somebody will leave.
                continue

            name = next(name for name, one in running.items() if one.request == event.request)

            if flags & _TOKEN:
                running[name].tokens.append(int(event.token))

            if flags & _FINISHED:
                self.cached_tokens[name] = int(event.usage.cached_prompt_tokens)
                one = running.pop(name)
                one.request.close()
                answers[name] = one.tokens
