"""From a request's sampling to the engine's search options. Pure; called once per request by `generation.py`.

The front has checked the values; they are checked again because the engine takes NaN and negative numbers without a word and
answers nonsense.
"""

import math
import secrets
from dataclasses import dataclass
from enum import Enum

from gpu_worker.errors import RequestFault
from ipc.messages import Guidance, RejectCode, Sampling

# Where neither the request nor the model says how many candidates to keep.
FALLBACK_TOP_K = 40
# The engine reads the seed as a signed 32-bit number in which -1 means "none".
_SEED_MASK = 0x7FFF_FFFF


class SearchMethod(Enum):
    """The engine's ways to choose a token; the options decide which one."""

    GREEDY = "greedy"
    TOP_K = "top_k"
    TOP_K_TOP_P = "top_k_top_p"


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How the engine searches. max_length counts prompt and answer; memory for all of it is taken when the search begins.

    repetition_penalty: None leaves the model's own. guidance: None leaves the answer free.
    """

    max_length: int
    do_sample: bool
    temperature: float
    top_p: float
    top_k: int
    seed: int
    repetition_penalty: float | None
    guidance: Guidance | None = None

    @property
    def method(self) -> SearchMethod:
        """Which way the engine chooses a token."""
        if not self.do_sample or self.top_k == 1:
            return SearchMethod.GREEDY

        return SearchMethod.TOP_K_TOP_P if self.top_p < 1 else SearchMethod.TOP_K

    @staticmethod
    def greedy(max_length: int) -> "SearchOptions":
        """The likeliest token each time."""
        return SearchOptions(
            max_length=max_length,
            do_sample=False,
            temperature=1.0,
            top_p=1.0,
            top_k=1,
            seed=0,
            repetition_penalty=None,
        )


def search_options(
    sampling: Sampling,
    *,
    max_length: int,
    model_top_k: int | None,
    vocabulary_size: int | None,
    guidance: Guidance | None = None,
) -> SearchOptions:
    """Raises RequestFault for a value that no engine can sample with, naming it."""
    _check(sampling)
    is_greedy = sampling.temperature == 0
    seed = secrets.randbits(31) if sampling.seed is None else sampling.seed & _SEED_MASK

    return SearchOptions(
        max_length=max_length,
        do_sample=not is_greedy,
        temperature=1.0 if is_greedy else sampling.temperature,
        top_p=1.0 if is_greedy else sampling.top_p,
        top_k=1 if is_greedy else _top_k(sampling.top_k, model_top_k, vocabulary_size),
        seed=seed,
        repetition_penalty=sampling.repetition_penalty,
        guidance=guidance,
    )


def _top_k(requested: int | None, model_top_k: int | None, vocabulary_size: int | None) -> int:
    if requested is not None:
        chosen = requested
    elif model_top_k is not None and model_top_k > 1:
        chosen = model_top_k
    else:
        # Exporters write 1 into every config; taking it would make each request greedy whatever its temperature.
        chosen = FALLBACK_TOP_K

    # The engine refuses more candidates than there are tokens.
    return chosen if vocabulary_size is None else min(chosen, vocabulary_size)


def _check(sampling: Sampling) -> None:
    _require(
        math.isfinite(sampling.temperature) and sampling.temperature >= 0,
        f"temperature must be a finite number of at least 0, not {sampling.temperature}",
    )
    _require(0 < sampling.top_p <= 1, f"top_p must be above 0 and at most 1, not {sampling.top_p}")
    _require(sampling.top_k is None or sampling.top_k >= 1, f"top_k must be at least 1, not {sampling.top_k}")
    penalty = sampling.repetition_penalty
    _require(
        penalty is None or (math.isfinite(penalty) and penalty > 0),
        f"repetition_penalty must be a finite number above 0, not {penalty}",
    )


def _require(is_met: bool, message: str) -> None:  # noqa: FBT001 - the condition is the subject of the call
    if not is_met:
        raise RequestFault(RejectCode.INVALID_REQUEST, message)
