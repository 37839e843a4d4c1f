"""What a schema costs: tokens per second of the same model with `response_format` over without, through the whole server."""

import json
from pathlib import Path
from typing import Any

from benchmarks.result import Result, at_least, at_most, median, rounded
from benchmarks.server import running_server

_LIST = "List the planets of the solar system, each with its diameter in kilometres, as JSON."
_TOKENS = 120
_ROUNDS = 7
# Long enough that the answer fills the tokens that it has: a rate over a few tokens is noise.
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "planets": {
            "type": "array",
            "minItems": 40,
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": 20}, "diameter_km": {"type": "integer"}},
                "required": ["name", "diameter_km"],
            },
        }
    },
    "required": ["planets"],
}
_FORMAT: dict[str, Any] = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "planets", "schema": _SCHEMA}}
}


def measure_schema(models: Path) -> list[Result]:
    """Take turns, so that both sides see the same machine."""
    with_schema, without, first_with, first_without = [], [], [], []

    with running_server(models) as server:
        server.stream(_LIST, 2, **_FORMAT)

        for number in range(_ROUNDS):
            # Another text each time, so that no kept prefix and no kept grammar stands in for the work.
            free = server.stream(f"{_LIST} {number}", _TOKENS)
            held = server.stream(f"{_LIST} {number}", _TOKENS, **_FORMAT)
            assert held.usage["completion_tokens"] == _TOKENS, json.dumps(held.text)
            without.append(free.tokens_per_s)
            with_schema.append(held.tokens_per_s)
            first_without.append(1000 * free.ttft_s)
            first_with.append(1000 * held.ttft_s)

    ratio = median([ours / theirs for ours, theirs in zip(with_schema, without, strict=True)])
    added_ms = median(first_with) - median(first_without)
    return [
        at_least(
            "tokens_per_s_with_schema_over_without",
            ratio,
            "ratio",
            0.9,
            with_schema=rounded(with_schema, 1),
            without=rounded(without, 1),
        ),
        at_most(
            "added_time_to_first_token_with_schema",
            added_ms,
            "ms",
            20,
            with_ms=rounded(first_with, 1),
            without_ms=rounded(first_without, 1),
        ),
    ]
