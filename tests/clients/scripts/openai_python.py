"""The `openai` package for Python against a server: chat, streams, raw answers, tools, errors, the async client. Prints one JSON line.

Run in an environment of its own, with PRISM_URL, PRISM_KEY, PRISM_MODEL and PRISM_TOOL_MODEL set.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable

import openai
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessageFunctionToolCall, ChatCompletionMessageParam, ChatCompletionToolParam

URL, KEY = os.environ["PRISM_URL"], os.environ["PRISM_KEY"]
MODEL, TOOL_MODEL = os.environ["PRISM_MODEL"], os.environ["PRISM_TOOL_MODEL"]
QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What is the capital of France?"}]
WEATHER_QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "How warm is it in Paris?"}]
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city now.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}

client = OpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=60)


def chat() -> str:
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_completion_tokens=40)
    text = answer.choices[0].message.content
    assert text is not None
    assert "Paris" in text
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == MODEL
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0
    return text


def stream() -> str:
    chunks = list(
        client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_tokens=40, stream=True)
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in chunks)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def stream_with_usage() -> dict[str, int]:
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=QUESTION,
            temperature=0,
            max_tokens=5,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    last = chunks[-1]
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 5
    assert chunks[-2].choices[0].finish_reason == "length"
    assert all(chunk.usage is None for chunk in chunks[:-1])
    return {"prompt": last.usage.prompt_tokens, "completion": last.usage.completion_tokens}


def stream_helper() -> str:
    """The events that the package makes of chunks: it refuses a stream whose chunks do not add up to a message."""
    with client.chat.completions.stream(model=MODEL, messages=QUESTION, temperature=0, max_tokens=40) as events:
        kinds = {event.type for event in events}
        message = events.get_final_completion().choices[0].message

    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert message.content is not None
    return message.content


def left_stream() -> str:
    """Leave a long stream after its first words; the next request is answered at once."""
    with client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Tell a long story."}], max_tokens=2000, stream=True
    ) as chunks:
        for chunk in chunks:
            if chunk.choices[0].delta.content:
                break

    return chat()


def raw() -> str:
    response = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=QUESTION, max_tokens=3, extra_headers={"X-Request-Id": "mine-1"}
    )
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"] == response.parse()._request_id == "mine-1"

    with client.chat.completions.with_streaming_response.create(
        model=MODEL, messages=QUESTION, max_tokens=3, stream=True
    ) as streamed:
        assert streamed.headers["content-type"] == "text/event-stream; charset=utf-8"
        lines = [line for line in streamed.iter_lines() if line]

    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    telemetry = json.loads(response.text)["telemetry"]
    return str(telemetry["device"])


def models() -> list[str]:
    names = [model.id for model in client.models.list()]
    assert client.models.retrieve(MODEL).id == MODEL
    assert MODEL in names
    return names


def text_completion() -> str:
    answer = client.completions.create(model=MODEL, prompt="One, two, three,", temperature=0, max_tokens=6, stop=["\n"])
    pieces = client.completions.create(
        model=MODEL, prompt="One, two, three,", temperature=0, max_tokens=6, stop=["\n"], stream=True
    )
    assert "".join(piece.choices[0].text for piece in pieces) == answer.choices[0].text
    return answer.choices[0].text


def seed() -> str:
    one, two = (
        client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=1.5, max_tokens=12, seed=7)
        for _ in range(2)
    )
    assert one.choices[0].message.content == two.choices[0].message.content
    return one.choices[0].message.content or ""


def tools_loop() -> str:
    messages = list(WEATHER_QUESTION)
    first = client.chat.completions.create(model=TOOL_MODEL, messages=messages, tools=[WEATHER])
    message = first.choices[0].message
    assert first.choices[0].finish_reason == "tool_calls"
    assert message.tool_calls is not None
    (call,) = message.tool_calls
    assert isinstance(call, ChatCompletionMessageFunctionToolCall)
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Paris"}

    # The message goes back as the package gives it, null content and all.
    messages.append(message.to_dict())  # type: ignore[arg-type]  # the package's own way, which its types do not know
    messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps({"degrees": 21})})
    second = client.chat.completions.create(model=TOOL_MODEL, messages=messages, tools=[WEATHER])
    assert second.choices[0].finish_reason == "stop"
    assert second.choices[0].message.tool_calls is None
    return second.choices[0].message.content or ""


def tools_stream() -> str:
    with client.chat.completions.stream(model=TOOL_MODEL, messages=WEATHER_QUESTION, tools=[WEATHER]) as events:
        choice = events.get_final_completion().choices[0]

    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    return choice.message.tool_calls[0].function.arguments


def failure(kind: type[openai.APIStatusError], code: str | None, call: Callable[[], object]) -> str:
    """Make a call that must fail, and return what the package makes of the answer."""
    raised: openai.APIStatusError | None = None

    try:
        call()
    except openai.APIStatusError as error:
        raised = error

    assert raised is not None
    assert type(raised) is kind, raised
    assert raised.code == code
    assert raised.request_id
    return f"{kind.__name__} {raised.status_code} code={raised.code} param={raised.param}"


def ask(model: str = MODEL, text: str = "Hi", **fields: float) -> Callable[[], object]:
    body = {"model": model, "messages": [{"role": "user", "content": text}], **fields}
    return lambda: client.post("/chat/completions", body=body, cast_to=object)


def errors() -> dict[str, str]:
    stranger = OpenAI(base_url=URL, api_key="wrong", max_retries=0)
    page = OpenAI(base_url=URL, api_key=KEY, max_retries=0, default_headers={"Origin": "http://elsewhere.example"})
    bad = openai.BadRequestError
    return {
        "wrong key": failure(openai.AuthenticationError, "invalid_api_key", lambda: stranger.models.list()),
        "unknown model": failure(openai.NotFoundError, "model_not_found", ask(model="no-such-model")),
        "unknown route": failure(
            openai.NotFoundError, "not_found", lambda: client.responses.create(model=MODEL, input="Hi")
        ),
        "temperature 9": failure(bad, None, ask(temperature=9)),
        "long prompt": failure(bad, "context_length_exceeded", ask(text="word " * 9000)),
        "tools, plain template": failure(
            bad,
            "tools_not_supported",
            lambda: client.chat.completions.create(model=MODEL, messages=QUESTION, tools=[WEATHER]),
        ),
        "embeddings": failure(
            bad, "embeddings_not_supported", lambda: client.embeddings.create(model=MODEL, input="Hi")
        ),
        "large body": failure(openai.APIStatusError, "body_too_large", ask(text="x" * (10 * 1024 * 1024))),
        "foreign page": failure(openai.PermissionDeniedError, "origin_not_allowed", lambda: page.models.list()),
    }


async def async_client() -> list[str]:
    async with AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=60) as own:

        async def whole() -> str:
            answer = await own.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_tokens=40)
            return answer.choices[0].message.content or ""

        async def streamed() -> str:
            chunks = await own.chat.completions.create(
                model=MODEL, messages=QUESTION, temperature=0, max_tokens=40, stream=True
            )
            return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])

        return list(await asyncio.gather(whole(), streamed(), whole()))


def main() -> None:
    seen: dict[str, object] = {"client": "openai (Python)", "version": openai.__version__}

    for check in (
        chat,
        stream,
        stream_with_usage,
        stream_helper,
        left_stream,
        raw,
        models,
        text_completion,
        seed,
        tools_loop,
        tools_stream,
        errors,
    ):
        seen[check.__name__] = check()

    seen["async_client"] = texts = asyncio.run(async_client())
    assert {seen["chat"], seen["stream"], seen["stream_helper"], seen["left_stream"], *texts} == {seen["chat"]}
    sys.stdout.write(json.dumps(seen) + "\n")


main()
