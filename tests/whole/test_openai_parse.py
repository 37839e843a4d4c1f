"""The official client's helpers for typed answers and typed calls, against the real engine with random weights."""

from collections.abc import Iterator
from datetime import date
from enum import StrEnum
from typing import Annotated, Literal

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam
from pydantic import BaseModel, Field

from prism.export.tiny_model import write_tiny_model
from tests.contract.conftest import TEMPLATE
from tests.served import serving

pytestmark = pytest.mark.engine

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "x"}]


class Colour(StrEnum):
    RED = "red"
    BLUE = "bleu céleste"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=1, le=9)]


class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool


class Answer(BaseModel):
    """With nesting, a choice by a tag, a reference to itself, an optional value and a date."""

    colour: Colour
    born: date
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    share: Annotated[float, Field(gt=0, lt=1)] | None
    next: "Answer | None"


class Weather(BaseModel):
    """Tell the weather."""

    city: Literal["Köln", "Oslo"]
    days: Annotated[int, Field(ge=1, le=7)] = 1


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("parse")
    write_tiny_model(folder / "models" / "tiny", context_length=4096, chat_template=TEMPLATE)

    with serving(folder, preload="tiny", program="tests.fuzz.serve_with_engine") as url:
        yield url


@pytest.fixture
def client(base_url: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{base_url}/v1", api_key="none", max_retries=0, timeout=30) as client:
        yield client


def test_an_answer_comes_as_a_typed_value(client: OpenAI) -> None:
    parsed = 0

    for seed in range(6):
        try:
            completion = client.chat.completions.parse(
                model="tiny", messages=MESSAGES, response_format=Answer, temperature=1, seed=seed, max_tokens=600
            )
        except openai.LengthFinishReasonError:
            continue

        parsed += isinstance(completion.choices[0].message.parsed, Answer)

    assert parsed >= 3


def test_a_streamed_answer_comes_as_a_typed_value(client: OpenAI) -> None:
    with client.chat.completions.stream(
        model="tiny", messages=MESSAGES, response_format=Weather, temperature=1, seed=1
    ) as stream:
        completion = stream.get_final_completion()

    assert isinstance(completion.choices[0].message.parsed, Weather)


def test_a_strict_tool_is_called_with_typed_arguments(client: OpenAI) -> None:
    tool = openai.pydantic_function_tool(Weather)
    completion = client.chat.completions.parse(
        model="tiny", messages=MESSAGES, tools=[tool], tool_choice="required", temperature=1, seed=2
    )
    calls = completion.choices[0].message.tool_calls

    assert completion.choices[0].finish_reason == "tool_calls"
    assert calls
    assert all(isinstance(call.function.parsed_arguments, Weather) for call in calls)


def test_a_schema_that_cannot_be_kept_is_a_bad_request_with_its_place(client: OpenAI) -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}

    with pytest.raises(openai.BadRequestError, match="#/properties/a") as caught:
        client.chat.completions.create(
            model="tiny",
            messages=MESSAGES,
            response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
        )

    assert caught.value.param == "response_format.json_schema.schema"
