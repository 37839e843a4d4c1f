"""What rest-api.txt and contract.md say about models of Ollama: the server stands beside the fake daemon of `tests/ollama`."""

import json
from typing import Any

from tests.contract.client import COMPLETIONS, EMBEDDINGS, TOOL, Case, Check, Client, refused
from tests.ollama.fake_daemon import floats_of, vector

USAGE = {"prompt_tokens": 26, "completion_tokens": 282, "total_tokens": 308}


def asked(client: Client, path: str = "/v1/chat/completions", **fields: Any) -> Any:
    """Return what the daemon was asked."""
    choice = client.answer(path, model="ollama:echoes", **fields)["choices"][0]
    return json.loads(choice["text"] if path == COMPLETIONS else choice["message"]["content"])


def passed(expected: dict[str, object], **fields: Any) -> Check:
    """Make a check: with these fields the daemon gets these options."""

    def check(client: Client) -> None:
        options = asked(client, **fields)["options"]
        assert {name: options.get(name) for name in expected} == expected

    return check


def check_listed(client: Client) -> None:
    models = {model["id"]: model for model in client.get("/v1/models").json["data"]}
    card = models["talks:latest"]
    assert set(card) == {"id", "object", "created", "owned_by", "size_mb", "device"}
    assert (card["owned_by"], card["size_mb"]) == ("Ollama (llama.cpp)", 3.0)
    assert client.get("/v1/models/talks").json == card
    ids = list(models)
    assert ids.index("talks:latest") > ids.index("stand-in")
    assert "ollama:stand-in" in ids


def check_one_user_message(client: Client) -> None:
    assert asked(client, COMPLETIONS, prompt="Once")["messages"] == [{"role": "user", "content": "Once"}]


def check_routed(client: Client) -> None:
    for name in ("ollama:talks", "talks", "TALKS:latest", " Ollama:talks "):
        answer = client.answer(model=name)
        assert answer["choices"][0]["message"]["content"] == "Hello\n        world"
        assert answer["model"] == name


def check_unknown(client: Client) -> None:
    refused(404, "model_not_found", "model", says="nope", model="ollama:nope")(client)
    assert client.get("/v1/models/ollama:nope").error["code"] == "model_not_found"


def check_figures(client: Client) -> None:
    answer = client.answer(model="ollama:talks")
    assert (answer["usage"], answer["choices"][0]["finish_reason"]) == (USAGE, "stop")
    assert "telemetry" not in answer
    assert client.choice(model="ollama:long")["finish_reason"] == "length"
    assert "usage" not in client.answer(model="ollama:silent-on-counts")


def check_usage_chunk(client: Client) -> None:
    option = {"include_usage": True}
    *_, usage, _ = client.events(model="ollama:talks", stream_options=option)
    assert (usage["choices"], usage["usage"]) == ([], USAGE)
    *_, finish, _ = client.events(model="ollama:silent-on-counts", stream_options=option)
    assert finish["choices"][0]["finish_reason"] == "stop"
    assert all("usage" not in event for event in client.events(model="ollama:talks")[:-1])


def check_reasoning(client: Client) -> None:
    message = client.choice(model="ollama:thinks")["message"]
    assert (message["reasoning_content"], message["content"]) == ("hm well", "Yes")


def check_stream_error(client: Client) -> None:
    *_, error, done = client.events(model="ollama:breaks")
    assert (error["error"]["code"], done) == ("backend_unavailable", "[DONE]")


def check_calls(client: Client) -> None:
    choice = client.choice(model="ollama:calls", tools=[TOOL])
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", "Let me look.")
    calls = choice["message"]["tool_calls"]
    assert len({call["id"] for call in calls}) == len(calls) == 2
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [{"city": "Paris"}] * 2
    deltas = [event["choices"][0]["delta"] for event in client.events(model="ollama:calls", tools=[TOOL])[:-1]]
    assert [call["index"] for delta in deltas for call in delta.get("tool_calls", ())] == [0, 1]


def check_tools_sent(client: Client) -> None:
    assert asked(client, tools=[TOOL])["tools"] == [TOOL]
    assert asked(client, tools=[TOOL], tool_choice="required")["tools"] == [TOOL]
    assert "tools" not in asked(client, tools=[TOOL], tool_choice="none")


def check_format(client: Client) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert asked(client, response_format={"type": "json_object"})["format"] == "json"
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    assert asked(client, response_format=wanted)["format"] == schema


def check_think(client: Client) -> None:
    assert asked(client, reasoning_effort="none")["think"] is False
    assert asked(client, reasoning={"effort": "high"})["think"] == "high"
    assert "think" not in asked(client)


def check_pictures(client: Client) -> None:
    url = "data:image/png;base64,iVBORw0KGgo="
    messages = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]
    assert asked(client, messages=messages)["messages"][0]["images"] == ["iVBORw0KGgo="]
    remote = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}]
    param = "messages[0].content[0].image_url"
    refused(400, None, param, says="nothing is fetched", model="ollama:echoes", messages=remote)(client)


def check_embeddings(client: Client) -> None:
    texts = ["first text", "second text"]

    for model in ("ollama:embeds", "embeds"):
        answer = client.answer(EMBEDDINGS, model=model, input=texts)
        assert answer["object"] == "list"
        assert answer["model"] == model
        assert answer["usage"] == {"prompt_tokens": 8, "total_tokens": 8}
        assert [(one["object"], one["index"], one["embedding"]) for one in answer["data"]] == [
            ("embedding", number, vector(text)) for number, text in enumerate(texts)
        ]


def check_base64(client: Client) -> None:
    answer = client.answer(EMBEDDINGS, model="ollama:embeds", encoding_format="base64")
    assert floats_of(answer["data"][0]["embedding"]) == vector("hello")


CASES = (
    Case("endpoints.models.ollama", "behind the server's own, each with its size", check_listed),
    Case("endpoints.models.ollama", "a prompt is one user message", check_one_user_message),
    Case("fields.model.ollama", "with the prefix or as an installed name", check_routed),
    Case("fields.model.ollama", "one that the daemon does not have is a 404", check_unknown),
    Case("fields.include_usage.ollama", "only when the daemon reports counts", check_usage_chunk),
    Case("fields.max_tokens", "512 by default with Ollama too", passed({"num_predict": 512})),
    Case("fields.max_tokens", "is num_predict there", passed({"num_predict": 7}, max_tokens=7)),
    Case("fields.temperature", "0.1 by default with Ollama too", passed({"temperature": 0.1, "top_p": 0.9})),
    Case("fields.top_k", "is passed on to Ollama", passed({"top_k": 3}, top_k=3)),
    Case("fields.top_k", "and left to it when it is not given", passed({"top_k": None})),
    Case(
        "fields.repetition_penalty", "is repeat_penalty there", passed({"repeat_penalty": 1.1}, repetition_penalty=1.1)
    ),
    Case(
        "fields.penalties",
        "are sent to Ollama",
        passed({"frequency_penalty": -2.0, "presence_penalty": 2.0}, frequency_penalty=-2, presence_penalty=2),
    ),
    Case("fields.stop", "goes to Ollama", passed({"stop": ["\nEND"]}, stop="\nEND")),
    Case("contract.seed", "goes to Ollama", passed({"seed": 5}, seed=5)),
    Case("responses.ollama", "no counts and no telemetry that the daemon did not tell", check_figures),
    Case("responses.ollama", "thinking is told apart", check_reasoning),
    Case("responses.ollama", "a fault in a stream is an event and the end", check_stream_error),
    Case("tools.ollama", "calls in the shape of the API", check_calls),
    Case("tools.ollama", "the tools that tool_choice leaves are passed on", check_tools_sent),
    Case(
        "tools.ollama",
        "a model that takes none says so",
        refused(
            400, "tools_not_supported", "tools", says="does not support tools", model="ollama:no-tools", tools=[TOOL]
        ),
    ),
    Case("contract.response_format", "is format for Ollama", check_format),
    Case("contract.reasoning", "is think for Ollama", check_think),
    Case("contract.images.ollama", "pictures are passed on, and never fetched", check_pictures),
    Case("embeddings.reply", "one vector for each text, in order", check_embeddings),
    Case("embeddings.encoding", "base64 holds the same numbers", check_base64),
    Case(
        "embeddings.model",
        "one that Ollama does not have",
        refused(404, "model_not_found", "model", EMBEDDINGS, model="ollama:nope"),
    ),
    Case(
        "embeddings.model",
        "one of Ollama that makes none",
        refused(
            400, "embeddings_not_supported", "model", EMBEDDINGS, says="does not support embeddings", model="chats-only"
        ),
    ),
    Case(
        "errors.backend",
        "a failure of the daemon in its words",
        refused(502, "backend_unavailable", says="exit status 2", model="ollama:fails"),
    ),
)
