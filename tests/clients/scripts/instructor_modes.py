"""instructor with the demo model: typed answers by a schema, typed calls with a model that calls. Prints one JSON line.

Run in an environment of its own, with PRISM_URL, PRISM_KEY, PRISM_MODEL and PRISM_TOOL_MODEL set.
"""
# The package is not in the environment that checks types.
# mypy: disable-error-code="import-not-found"

import json
import os
import sys
from typing import Annotated, Literal

import instructor
from openai import OpenAI
from pydantic import BaseModel, Field


class Weather(BaseModel):
    """The weather that somebody asks for."""

    city: Literal["Paris", "Oslo"]
    days: Annotated[int, Field(ge=1, le=7)]


def asked(mode: instructor.Mode, model: str) -> int:
    """How many of four answers were of the type, without a second try."""
    client = instructor.from_openai(
        OpenAI(base_url=os.environ["PRISM_URL"], api_key=os.environ["PRISM_KEY"]), mode=mode
    )
    answers = [
        client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": "The weather in Paris for three days, please."}],
            response_model=Weather,
            max_retries=0,
            temperature=1,
            seed=seed,
        )
        for seed in range(4)
    ]
    return sum(isinstance(answer, Weather) for answer in answers)


if __name__ == "__main__":
    seen = {
        "json_schema": asked(instructor.Mode.JSON_SCHEMA, os.environ["PRISM_MODEL"]),
        "tools": asked(instructor.Mode.TOOLS, os.environ["PRISM_TOOL_MODEL"]),
        "version": instructor.__version__,
    }
    sys.stdout.write(json.dumps(seen) + "\n")
