"""The official Python client of OpenAI against a running server: what programs written for it do must work as it is."""

import json
import time
from collections.abc import Iterator

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from tests.contract.conftest import TEMPLATE
from tests.raw_http import send
from tests.served import serving, write_model

KEY = "the-key"
MODEL = "stand-in"
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("openai")
    write_model(folder, MODEL, {"prompt_tokens": 5, "text": ["Hel", "lo"]}, TEMPLATE)
    write_model(folder, "twin-one")
    write_model(folder, "twin-two")
    (folder / "key").write_text(KEY)

    with serving(folder, preload=MODEL, PRISM_API_KEY_FILE=str(folder / "key")) as url:
        yield url


@pytest.fixture
def client(base_url: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{base_url}/v1", api_key=KEY, max_retries=0, timeout=10) as client:
        yield client


def scripted(content: str = "hello", /, **script: object) -> list[ChatCompletionMessageParam]:
    """Return messages that make the stand-in behave so."""
    return [{"role": "user", "content": f"{content}\n@stand-in {json.dumps(script)}"}]


def wait_ready(base_url: str) -> None:
    deadline = time.monotonic() + 5

    while send(base_url, "GET", "/health").json["state"] != "ready":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_models_are_listed_and_retrieved(client: OpenAI) -> None:
    models = {model.id: model for model in client.models.list()}
    assert set(models) == {MODEL, "twin-one", "twin-two"}
    assert client.models.retrieve(MODEL) == models[MODEL]
    assert models[MODEL].owned_by == "ONNX Runtime GenAI"
    assert (models[MODEL].model_extra or {})["device"] == "CPU"


def test_a_chat_is_answered(client: OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=scripted(), max_tokens=9, temperature=0)
    assert answer.choices[0].message.content == "Hello"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (5, 2)
    assert answer.usage.completion_tokens_details is not None
    assert answer.model_extra is not None
    assert answer.model_extra["telemetry"]["device"] == "cpu"


def test_a_stream_can_be_read(client: OpenAI) -> None:
    chunks = list(client.chat.completions.create(model=MODEL, messages=scripted(), stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert all(chunk.usage is None for chunk in chunks)


def test_a_stream_ends_with_its_usage(client: OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model=MODEL, messages=scripted(), stream=True, stream_options={"include_usage": True}
        )
    )
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 7


def test_the_helper_for_streams_builds_the_whole_answer(client: OpenAI) -> None:
    with client.chat.completions.stream(
        model=MODEL, messages=scripted(text=["Let me look. ", CALL]), tools=[WEATHER]
    ) as stream:
        for _ in stream:
            pass

        message = stream.get_final_completion().choices[0].message

    assert message.content == "Let me look."
    assert message.tool_calls is not None
    assert message.tool_calls[0].function.arguments == '{"city":"Oslo"}'


def test_thinking_is_told_apart(client: OpenAI) -> None:
    messages = scripted(text=["<think>", "hm", "</think>", "Yes"])
    message = client.chat.completions.create(model=MODEL, messages=messages).choices[0].message
    assert message.content == "Yes"
    assert message.model_extra is not None
    assert message.model_extra["reasoning_content"] == "hm"


def test_raw_responses_have_their_headers(client: OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=scripted(), extra_headers={"X-Request-Id": "mine"}
    )
    assert raw.headers["x-request-id"] == "mine"
    assert raw.parse().choices[0].message.content == "Hello"


def test_a_stream_of_raw_lines_ends_with_done(client: OpenAI) -> None:
    with client.chat.completions.with_streaming_response.create(
        model=MODEL, messages=scripted(), stream=True
    ) as response:
        lines = [line for line in response.iter_lines() if line]

    assert lines[-1] == "data: [DONE]"


@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_loop_of_tools(client: OpenAI, is_streamed: bool) -> None:
    messages = scripted("Weather?", text=["Let me look. ", CALL])

    if is_streamed:
        chunks = client.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER], stream=True)
        deltas = [chunk.choices[0].delta for chunk in chunks]
        (streamed,) = [call for delta in deltas for call in delta.tool_calls or []]
        assert streamed.index == 0
        assert streamed.function is not None
        call_id, name, arguments = streamed.id, streamed.function.name, streamed.function.arguments
    else:
        choice = client.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER]).choices[0]
        assert choice.finish_reason == "tool_calls"
        assert choice.message.tool_calls is not None
        call = choice.message.tool_calls[0]
        assert call.type == "function"
        call_id, name, arguments = call.id, call.function.name, call.function.arguments

    assert (name, json.loads(arguments or "")) == ("weather", {"city": "Oslo"})
    assert call_id
    messages += [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": call_id, "type": "function", "function": {"name": name or "", "arguments": arguments or ""}}
            ],
        },
        {"role": "tool", "tool_call_id": call_id, "content": "12 degrees"},
        *scripted("Thanks.", text=["It is 12 degrees."]),
    ]
    last = client.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER]).choices[0]
    assert (last.message.content, last.finish_reason) == ("It is 12 degrees.", "stop")


def test_text_completions(client: OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="Once")
    assert answer.choices[0].text == "Hello"
    chunks = list(client.completions.create(model=MODEL, prompt=["one", "two"], stream=True))
    assert ["".join(c.choices[0].text for c in chunks if c.choices[0].index == n) for n in (0, 1)] == ["Hello", "Hello"]


def test_faults_become_the_clients_own_exceptions(client: OpenAI, base_url: str) -> None:
    create = client.chat.completions.create

    with pytest.raises(openai.BadRequestError) as bad:
        create(model=MODEL, messages=scripted(), temperature=9)

    assert (bad.value.param, bad.value.type) == ("temperature", "invalid_request_error")

    with pytest.raises(openai.BadRequestError) as penalty:
        create(model=MODEL, messages=scripted(), presence_penalty=1)

    assert penalty.value.code == "unsupported_parameter"

    with pytest.raises(openai.NotFoundError) as unknown:
        create(model="nope", messages=scripted())

    assert unknown.value.code == "model_not_found"

    with pytest.raises(openai.BadRequestError) as window:
        create(
            model=MODEL,
            stream=True,
            messages=scripted(reject={"code": "context_length_exceeded", "message": "9 of 8"}),
        )

    assert window.value.code == "context_length_exceeded"

    with (
        OpenAI(base_url=f"{base_url}/v1", api_key="wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError) as key,
    ):
        stranger.models.list()

    assert key.value.code == "invalid_api_key"

    with (
        OpenAI(base_url=f"{base_url}/v2", api_key=KEY, max_retries=0) as lost,
        pytest.raises(openai.NotFoundError) as route,
    ):
        lost.models.list()

    assert route.value.code == "not_found"


def test_an_engine_that_raises_is_a_server_error(client: OpenAI) -> None:
    fail = {"code": "engine_error", "message": "bad node", "is_fatal": False}

    with pytest.raises(openai.InternalServerError, match="bad node"):
        client.chat.completions.create(model=MODEL, messages=scripted(fail=fail))


def test_a_fault_in_a_stream_is_raised_while_it_is_read(client: OpenAI) -> None:
    fail = {"code": "engine_error", "message": "bad node", "is_fatal": False}
    stream = client.chat.completions.create(model=MODEL, messages=scripted(fail=fail, fail_after=1), stream=True)
    seen: list[str] = []

    with pytest.raises(openai.APIError, match="bad node"):
        seen.extend(chunk.choices[0].delta.content or "" for chunk in stream)

    assert "".join(seen) == "Hel"


def test_a_client_that_runs_out_of_time_stops_the_work(client: OpenAI, base_url: str) -> None:
    slow = scripted(text=["a"] * 2000, delay_s=0.005)

    with pytest.raises(openai.APITimeoutError):
        client.chat.completions.create(model=MODEL, messages=slow, max_tokens=2000, timeout=0.3)

    wait_ready(base_url)


def test_a_stream_that_is_closed_early_stops_the_work(client: OpenAI, base_url: str) -> None:
    slow = scripted(text=["a"] * 2000, delay_s=0.005)

    with client.chat.completions.create(model=MODEL, messages=slow, max_tokens=2000, stream=True) as stream:
        for _, _ in zip(range(3), stream, strict=False):
            pass

    wait_ready(base_url)


async def test_the_asynchronous_client(base_url: str) -> None:
    async with AsyncOpenAI(base_url=f"{base_url}/v1", api_key=KEY, max_retries=0) as client:
        text = ""

        async for chunk in await client.chat.completions.create(model=MODEL, messages=scripted(), stream=True):
            text += chunk.choices[0].delta.content or ""

    assert text == "Hello"


def test_embeddings_say_why_not(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(model=MODEL, input="x")

    assert refused.value.code == "embeddings_not_supported"
