"""The official Python client of OpenAI against a server that passes requests on to a daemon: chat, stream, tools, embeddings, errors."""

import json
from collections.abc import Iterator

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from tests.ollama.fake_daemon import vector
from tests.ollama.fake_process import serving_daemon
from tests.served import serving

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("openai")
    (folder / "models").mkdir()

    with serving_daemon() as daemon, serving(folder, OLLAMA_HOST=daemon) as url:
        yield url


@pytest.fixture
def client(base_url: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{base_url}/v1", api_key="anything", max_retries=0, timeout=10) as client:
        yield client


def test_models_are_listed_and_retrieved(client: OpenAI) -> None:
    models = {model.id: model for model in client.models.list()}
    assert models["talks:latest"].owned_by == "Ollama (llama.cpp)"
    assert client.models.retrieve("talks") == models["talks:latest"]


def test_a_chat(client: OpenAI) -> None:
    answer = client.chat.completions.create(model="ollama:talks", messages=HELLO)
    assert answer.choices[0].message.content == "Hello\n        world"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 308


def test_a_stream_with_usage(client: OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="ollama:talks", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "Hello\n        world"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens == 26


def test_thinking(client: OpenAI) -> None:
    message = client.chat.completions.create(model="ollama:thinks", messages=HELLO).choices[0].message
    assert (message.model_extra or {})["reasoning_content"] == "hm well"


def test_tools(client: OpenAI) -> None:
    choice = client.chat.completions.create(model="ollama:calls", messages=HELLO, tools=[WEATHER]).choices[0]
    assert choice.finish_reason == "tool_calls"
    calls = choice.message.tool_calls or []
    assert len({call.id for call in calls}) == 2

    for call in calls:
        assert call.type == "function"
        assert json.loads(call.function.arguments) == {"city": "Paris"}


def test_tools_in_a_stream(client: OpenAI) -> None:
    """The helper puts calls together by their index."""
    with client.chat.completions.stream(model="ollama:calls", messages=HELLO, tools=[WEATHER]) as stream:
        for _ in stream:
            pass

        message = stream.get_final_completion().choices[0].message

    assert message.content == "Let me look."
    assert [call.function.name for call in message.tool_calls or ()] == ["get_weather", "get_weather"]


def test_the_loop_of_tools(client: OpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = [
        *HELLO,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "12 degrees"},
    ]
    answer = client.chat.completions.create(model="ollama:echoes", messages=messages, tools=[WEATHER])
    asked = json.loads(answer.choices[0].message.content or "")
    assert asked["messages"][1]["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": {"city": "Oslo"}}
    assert asked["messages"][2]["tool_name"] == "get_weather"


def test_text_completions(client: OpenAI) -> None:
    answer = client.completions.create(model="ollama:talks", prompt="Once")
    assert answer.choices[0].text == "Hello\n        world"
    chunks = client.completions.create(model="ollama:talks", prompt="Once", stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == "Hello\n        world"


def test_embeddings_as_the_client_asks_for_them_by_itself(client: OpenAI) -> None:
    """It asks for base64 unless it is told otherwise, and decodes it."""
    answer = client.embeddings.create(model="ollama:embeds", input=["first text", "second"])
    assert [one.embedding for one in answer.data] == [vector("first text"), vector("second")]
    assert answer.usage.total_tokens == 8


def test_embeddings_as_numbers(client: OpenAI) -> None:
    answer = client.embeddings.create(model="embeds", input="one", encoding_format="float")
    assert answer.data[0].embedding == vector("one")


def test_errors_have_their_classes(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="prism pull ollama:nope"):
        client.chat.completions.create(model="ollama:nope", messages=HELLO)

    with pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model="ollama:fails", messages=HELLO)

    assert (caught.value.status_code, caught.value.code) == (502, "backend_unavailable")

    with pytest.raises(openai.BadRequestError, match="does not support embeddings"):
        client.embeddings.create(model="chats-only", input="x")

    with pytest.raises(openai.APIError, match="exit status 2"):
        list(client.chat.completions.create(model="ollama:breaks", messages=HELLO, stream=True))
