"""Random schemas against a running server: every answer that ends by itself must fit. Used by `python -m tests.fuzz --schemas`."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import jsonschema

from tests.fuzz.random_schemas import random_schema
from tests.raw_http import send

# Without `time`: the library checks an older form of it, without a zone.
FORMATS = jsonschema.FormatChecker(set(jsonschema.FormatChecker.checkers) - {"time"})
_FIELD = "response_format.json_schema.schema"


@dataclass
class SchemaTally:
    """What became of the schemas. complaints: answers that do not fit, and statuses that may not be."""

    ends: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the figures, and the first complaints."""
        return [" ".join(f"{name}={count}" for name, count in sorted(self.ends.items())), *self.complaints[:20]]


def run_schemas(base_url: str, model: str, first: int, count: int, *, max_tokens: int = 300) -> SchemaTally:
    """Ask once under each schema, at temperature 1."""
    tally = SchemaTally()

    for number in range(first, first + count):
        schema = random_schema(number)
        body = {
            "model": model,
            "messages": [{"role": "user", "content": "Answer with JSON."}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
            "temperature": 1,
            "seed": number,
            "max_tokens": max_tokens,
        }
        reply = send(base_url, "POST", "/v1/chat/completions", body=json.dumps(body))
        end, complaint = _judged(reply.status, reply.json, schema)
        tally.ends[end] += 1

        if complaint:
            tally.complaints.append(f"schema {number}: {complaint}")

    return tally


def _judged(status: int, answer: Any, schema: dict[str, object]) -> tuple[str, str | None]:
    """How the request ended, in a word, and what is wrong with that."""
    if status == 400:
        return "refused", None if answer["error"]["param"] == _FIELD else str(answer)

    if status != 200:
        return str(status), str(answer)

    choice = answer["choices"][0]

    if choice["finish_reason"] != "stop":
        return choice["finish_reason"], None

    try:
        value = json.loads(choice["message"]["content"])
        jsonschema.Draft202012Validator(schema, format_checker=FORMATS).validate(value)
    except (ValueError, jsonschema.ValidationError) as error:
        return "wrong", f"{choice['message']['content']!r}: {error}"

    return "fits", None
