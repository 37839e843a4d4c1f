"""Prompts under which workers ended: one that did it twice is refused for a while, so that it does not cost everybody a worker each time.

Asked by the one that owns the workers, before a request is begun. Pure: the clock is given. Keeps hashes, never a prompt; hashing costs
about 1 ms per MB, and nothing at all as long as no worker has ended under a request.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

_Key: TypeAlias = bytes


@dataclass(frozen=True, slots=True)
class PoisonBounds:
    """deaths_to_refuse deaths within window_s make a prompt refused, for refused_s after the last of them. Raises ValueError by name."""

    deaths_to_refuse: int = 2
    window_s: float = 600.0
    refused_s: float = 600.0

    def __post_init__(self) -> None:
        for name, value in (
            ("deaths_to_refuse", self.deaths_to_refuse),
            ("window_s", self.window_s),
            ("refused_s", self.refused_s),
        ):
            if not value > 0:
                raise ValueError(f"{name} must be above zero: {value}")


class PoisonPrompts:
    """Which prompts of which model are suspected, and which refused. clock: monotonic, in seconds."""

    def __init__(self, bounds: PoisonBounds, clock: Callable[[], float] = time.monotonic) -> None:
        self._bounds = bounds
        self._clock = clock
        self._deaths: dict[_Key, list[float]] = {}
        self._refused_until: dict[_Key, float] = {}

    def refused_for_s(self, model_id: str, prompt: Sequence[str | bytes]) -> float | None:
        """Return for how long this prompt is refused from now on; None when it may be tried.

        prompt: as `ipc.messages.GenerationTask.identity` gives it.
        """
        if not self._refused_until:
            return None

        left_s = self._refused_until.get(_key(model_id, prompt), 0.0) - self._clock()
        return left_s if left_s > 0 else None

    def died_under(self, model_id: str, prompt: Sequence[str | bytes]) -> None:
        """A worker ended while it worked on this prompt: it crashed, was killed for its memory, or hung."""
        now = self._clock()
        self._drop_old(now)
        key = _key(model_id, prompt)
        deaths = self._deaths.setdefault(key, [])
        deaths.append(now)

        if len(deaths) >= self._bounds.deaths_to_refuse:
            self._refused_until[key] = now + self._bounds.refused_s
            # What comes after the refusal is judged anew.
            del self._deaths[key]

    def completed(self, model_id: str, prompt: Sequence[str | bytes]) -> None:
        """A worker answered this prompt to its end: it was not to blame."""
        if self._deaths:
            self._deaths.pop(_key(model_id, prompt), None)

    def _drop_old(self, now: float) -> None:
        """Forget what counts no more; the tables hold no more than the deaths and refusals of one window."""
        recent = {
            key: [at for at in deaths if now - at < self._bounds.window_s] for key, deaths in self._deaths.items()
        }
        self._deaths = {key: deaths for key, deaths in recent.items() if deaths}
        self._refused_until = {key: until for key, until in self._refused_until.items() if until > now}


def _key(model_id: str, prompt: Sequence[str | bytes]) -> _Key:
    digest = hashlib.blake2b(digest_size=16)

    for piece in (model_id, *prompt):
        # Half of a surrogate pair is no text, but it may be what killed the worker.
        encoded = piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece
        # With its length, so that ("ab", "c") is not ("a", "bc"): the border of two pieces has a meaning.
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)

    return digest.digest()
