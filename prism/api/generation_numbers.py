"""Ranges of the numbers of a request, and what they become for the engine.

Called by the handlers after the model is known (penalties depend on the engine) and before the template is rendered. Pure.
"""

from typing import Final

from ipc.messages import Sampling
from prism.api.generation_fields import GenerationFields
from prism.api.limits import DEFAULT_MAX_TOKENS, LARGEST_COUNT, LARGEST_SEED, MAX_STOP_CHARS, MAX_STOP_STRINGS
from prism.api.refusals import invalid_request, unsupported_parameter

# The engine computes with 32-bit floats: beyond these a number would become zero or infinity there.
_COLDEST: Final = 1e-4  # the most probable token wins at any gap of logits that 32 bits can show
_SMALLEST_TOP_P: Final = 1e-6
_PENALTY_BOUNDS: Final = (1e-6, 1e6)


def check_numbers(request: GenerationFields, *, is_onnx: bool) -> None:
    """Raise ApiError for the first number or stop string that is out of range.

    is_onnx: the model runs on ONNX Runtime GenAI, which has neither a frequency nor a presence penalty.
    """
    _check_max_tokens(request)
    _check_between("temperature", request.temperature, 0, 2)
    _check_top_p(request.top_p)
    _check_stop(request.stop)
    _check_at_least_one("top_k", request.top_k)
    _check_repetition_penalty(request.repetition_penalty)
    _check_penalty("frequency_penalty", request.frequency_penalty, is_onnx=is_onnx)
    _check_penalty("presence_penalty", request.presence_penalty, is_onnx=is_onnx)
    _check_at_least_one("n", request.n)
    _check_seed(request.seed)


def max_new_tokens(request: GenerationFields) -> int:
    """Return how many tokens may be generated: what was asked for, else 512. A count past 32 bits means "as many as fit"."""
    asked = request.max_completion_tokens if request.max_tokens is None else request.max_tokens

    return DEFAULT_MAX_TOKENS if asked is None else min(asked, LARGEST_COUNT)


def stop_strings(request: GenerationFields) -> tuple[str, ...]:
    """Return the stop strings, () when there are none."""
    match request.stop:
        case None:
            return ()

        case str() as one:
            return (one,)

        case several:
            return tuple(several)


def sampling_of(request: GenerationFields) -> Sampling:
    """Return the checked numbers as the worker takes them."""
    usual = Sampling()

    return Sampling(
        temperature=usual.temperature if request.temperature is None else _temperature(request.temperature),
        top_p=usual.top_p if request.top_p is None else max(request.top_p, _SMALLEST_TOP_P),
        top_k=None if request.top_k is None else min(request.top_k, LARGEST_COUNT),
        repetition_penalty=_repetition_penalty(request.repetition_penalty),
        seed=request.seed,
    )


def _temperature(temperature: float) -> float:
    return temperature if temperature >= _COLDEST else 0.0


def _repetition_penalty(penalty: float | None) -> float | None:
    low, high = _PENALTY_BOUNDS

    return None if penalty is None else min(max(penalty, low), high)


def _check_max_tokens(request: GenerationFields) -> None:
    _check_at_least_one("max_tokens", request.max_tokens)
    _check_at_least_one("max_completion_tokens", request.max_completion_tokens)

    if (
        None in (request.max_tokens, request.max_completion_tokens)
        or request.max_tokens == request.max_completion_tokens
    ):
        return

    raise invalid_request("'max_tokens' and 'max_completion_tokens' differ: send one of them.", "max_completion_tokens")


def _check_at_least_one(field: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise invalid_request(f"'{field}' must be at least 1.", field)


def _check_between(field: str, value: float | None, low: float, high: float) -> None:
    # Written so that a NaN fails too.
    if value is not None and not low <= value <= high:
        raise invalid_request(f"'{field}' must be between {low} and {high}.", field)


def _check_top_p(value: float | None) -> None:
    if value is not None and not 0 < value <= 1:
        raise invalid_request("'top_p' must be above 0 and at most 1.", "top_p")


def _check_repetition_penalty(value: float | None) -> None:
    if value is not None and not 0 < value < float("inf"):
        raise invalid_request("'repetition_penalty' must be above 0 and finite.", "repetition_penalty")


def _check_penalty(field: str, value: float | None, *, is_onnx: bool) -> None:
    _check_between(field, value, -2, 2)

    # Clients send 0 by default, which asks for nothing.
    if is_onnx and value:
        raise unsupported_parameter(field, f"'{field}' is not supported on ONNX models: leave it out or send 0.")


def _check_seed(seed: int | None) -> None:
    if seed is not None and not -LARGEST_SEED - 1 <= seed <= LARGEST_SEED:
        raise invalid_request("'seed' must fit into 64 bits.", "seed")


def _check_stop(stop: str | list[str] | None) -> None:
    if stop is None:
        return

    if isinstance(stop, list) and len(stop) > MAX_STOP_STRINGS:
        raise invalid_request(f"'stop' takes at most {MAX_STOP_STRINGS} strings.", "stop")

    for number, text in enumerate([stop] if isinstance(stop, str) else stop):
        field = "stop" if isinstance(stop, str) else f"stop[{number}]"

        if not text:
            raise invalid_request(f"'{field}' must not be empty.", field)

        if len(text) > MAX_STOP_CHARS:
            raise invalid_request(f"'{field}' must have at most {MAX_STOP_CHARS} characters.", field)
