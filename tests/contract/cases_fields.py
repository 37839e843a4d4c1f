"""The table of request fields of rest-api.txt, and what contract.md says about strict types and ranges."""

from typing import Any

from tests.contract.client import (
    ABSENT,
    CHAT,
    COMPLETIONS,
    MODEL,
    TOOL,
    Case,
    Client,
    refused,
    refused_body,
    taken,
    told,
)

USER = {"role": "user", "content": "hello"}


def _prompt_of(client: Client, *messages: object, **fields: Any) -> str:
    prompt = client.told(messages=list(messages), **fields)["prompt"]
    assert isinstance(prompt, str)
    return prompt


def check_template_is_the_models(client: Client) -> None:
    assert _prompt_of(client, USER).startswith("<|im_start|>user\nhello<|im_end|>\n<|im_start|>user\n")


def check_raw_prompt(client: Client) -> None:
    assert client.told(COMPLETIONS, prompt="a raw one")["prompt"].startswith("a raw one\n@stand-in ")


def check_parts(client: Client) -> None:
    parts = [{"type": "text", "text": "one"}, "two", {"type": "text", "text": "three"}]
    assert "user\none\ntwo\nthree<|im_end|>" in _prompt_of(client, {"role": "user", "content": parts})


def check_dropped_parts(client: Client) -> None:
    image = {"type": "image_url", "image_url": {"url": "http://example.invalid/x.png", "detail": "low"}}
    sound = {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}
    messages = [{"role": "user", "content": [image, {"type": "text", "text": "what?"}, sound]}]
    reply = client.ask(messages=messages)
    assert reply.status == 200
    assert reply.headers["x-prism-dropped-parts"] == "2"
    assert client.ask(messages=messages, stream=True).headers["x-prism-dropped-parts"] == "2"
    assert "x-prism-dropped-parts" not in client.ask().headers
    assert "user\nwhat?<|im_end|>" in _prompt_of(client, *messages)


def check_ignored_fields(client: Client) -> None:
    plain = client.told()
    fields: dict[str, Any] = {
        "n": 1,
        "logprobs": True,
        "top_logprobs": 3,
        "logit_bias": {"1": 5},
        "user": "someone",
        "metadata": {"a": [1, None]},
        "store": True,
        "service_tier": "auto",
        "parallel_tool_calls": True,
        "response_format": {"type": "text"},
        "made_up": {"deeply": [{"nested": 1.5}]},
    }
    assert client.told(**fields) == plain
    assert len(client.answer(n=2)["choices"]) == 1


def check_roles(client: Client) -> None:
    roles = ("system", "user", "assistant", "tool", "user")
    prompt = _prompt_of(client, *({"role": role, "content": f"by {role}"} for role in roles))
    assert all(f"<|im_start|>{role}\nby {role}<|im_end|>" in prompt for role in roles)


def check_developer(client: Client) -> None:
    assert "<|im_start|>system\nbe brief<|im_end|>" in _prompt_of(
        client, {"role": "developer", "content": "be brief"}, USER
    )


def check_empty_contents(client: Client) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    turns = [
        {"role": "system", "content": None},
        {"role": "user"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "assistant", "content": ""},
        USER,
    ]
    prompt = _prompt_of(client, *turns)
    assert "None" not in prompt
    assert "<|im_start|>user\n<|im_end|>" in prompt


def check_arguments(client: Client) -> None:
    def call(arguments: str) -> str:
        function = {"name": "f", "arguments": arguments}
        turn = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
        return _prompt_of(client, USER, turn, USER)

    assert '"arguments": {"city": "Oslo"}' in call('{"city": "Oslo"}')
    assert '"arguments": "not json"' in call("not json")


def check_old_name_of_the_cap(client: Client) -> None:
    pieces = {"text": ["a"] * 9}
    assert client.answer(script=pieces, max_completion_tokens=5)["usage"]["completion_tokens"] == 5
    assert client.answer(COMPLETIONS, pieces, max_completion_tokens=5)["usage"]["completion_tokens"] == 5
    assert client.answer(script=pieces, max_tokens=5, max_completion_tokens=5)["usage"]["completion_tokens"] == 5


def check_stop(client: Client) -> None:
    script = {"text": ["The quick br", "own f", "ox ", "jumps"]}
    for stop in ("own fox", ["zzz", "own fox", "jumps", "y"]):
        choice = client.choice(script, stop=stop)
        assert (choice["message"]["content"], choice["finish_reason"]) == ("The quick br", "stop")

    assert client.answer(COMPLETIONS, script, stop="quick")["choices"][0]["text"] == "The "


CASES = (
    Case("fields.model", "is required", refused(400, param="model", model=ABSENT)),
    Case("fields.model", "a blank name is none", refused(400, param="model", model=" ")),
    Case("fields.model", "has to be a text", refused(400, param="model", model=7)),
    Case("fields.model", "is found in any case, with blanks around it", taken(model=" STAND-IN ")),
    Case("fields.model", "a part of one name is enough", taken(model="stand")),
    Case(
        "fields.model", "is required for text completions too", refused(400, None, "model", COMPLETIONS, model=ABSENT)
    ),
    Case("fields.messages", "is required", refused(400, param="messages", messages=ABSENT)),
    Case("fields.messages", "must not be empty", refused(400, param="messages", messages=[])),
    Case("fields.messages", "is a list", refused(400, param="messages", messages="hello")),
    Case("fields.messages", "of objects", refused(400, param="messages[0]", messages=["hello"])),
    Case("fields.messages", "the model's own template makes the prompt", check_template_is_the_models),
    Case("endpoints.completions", "the prompt goes to the model as it is", check_raw_prompt),
    Case("endpoints.completions", "an empty prompt is a 400", refused(400, None, "prompt", COMPLETIONS, prompt="")),
    Case("fields.stop", "a string or up to four; the first match ends the text and is not in it", check_stop),
    Case("fields.stop", "five are too many", refused(400, param="stop", stop=list("abcde"))),
    Case("fields.stop", "an empty one is a 400", refused(400, param="stop[1]", stop=["a", ""])),
    Case("fields.stop", "texts only", refused(400, param="stop", stop=7)),
    Case("fields.max_tokens", "512 when nothing is said", told({"max_tokens": 512})),
    Case("fields.max_tokens", "512 for text completions too", told({"max_tokens": 512}, COMPLETIONS)),
    Case("fields.max_tokens", "must be at least 1", refused(400, param="max_tokens", max_tokens=0)),
    Case("fields.max_tokens", "the newer name counts alike", check_old_name_of_the_cap),
    Case("fields.max_tokens", "≥ 1", refused(400, param="max_completion_tokens", max_completion_tokens=-1)),
    Case("fields.temperature", "0.1 by default", told({"temperature": 0.1})),
    Case("fields.temperature", "0 is greedy, and reaches the worker as 0", told({"temperature": 0}, temperature=0)),
    Case("fields.top_p", "0.9 by default", told({"top_p": 0.9})),
    Case("fields.top_p", "is passed on", told({"top_p": 0.5}, top_p=0.5)),
    Case("fields.top_k", "the model's own when absent", told({"top_k": None})),
    Case("fields.top_k", "is passed on", told({"top_k": 3}, top_k=3)),
    Case("fields.top_k", "at least 1", refused(400, param="top_k", top_k=0)),
    Case("fields.top_k", "a whole number", refused(400, param="top_k", top_k=2.7)),
    Case("fields.repetition_penalty", "is passed on", told({"repetition_penalty": 1.05}, repetition_penalty=1.05)),
    Case("fields.repetition_penalty", "above 0", refused(400, param="repetition_penalty", repetition_penalty=0)),
    Case("fields.penalties", "0 is taken, clients send it", taken(frequency_penalty=0, presence_penalty=0.0)),
    Case(
        "fields.penalties",
        "anything else cannot be honoured",
        refused(400, "unsupported_parameter", "frequency_penalty", frequency_penalty=0.5),
    ),
    Case(
        "fields.penalties",
        "anything else cannot be honoured",
        refused(400, "unsupported_parameter", "presence_penalty", presence_penalty=-2),
    ),
    Case("fields.penalties", "−2 to 2", refused(400, param="presence_penalty", presence_penalty=2.1)),
    Case("fields.content", "a text or a list of parts; texts are joined with a line break", check_parts),
    Case("fields.content", "parts that are not text are dropped, and the answer says how many", check_dropped_parts),
    Case("fields.ignored", "other fields change nothing", check_ignored_fields),
    Case("strict.types", "stream is no text", refused(400, param="stream", stream="false")),
    Case("strict.types", "a truth value is no number", refused(400, param="max_tokens", max_tokens=True)),
    Case("strict.types", "no fraction of a token", refused(400, param="max_tokens", max_tokens=3.9)),
    Case("strict.types", "a text is no number", refused(400, param="max_tokens", max_tokens="7")),
    Case("strict.types", "not even a temperature", refused(400, param="temperature", temperature="0.5")),
    Case("strict.types", "options of the stream are an object", refused(400, param="stream_options", stream_options=1)),
    Case("strict.types", "NaN is not JSON", refused_body(f'{{"model":"{MODEL}","temperature":NaN}}', says="JSON")),
    Case("strict.types", "nor is Infinity", refused_body(f'{{"model":"{MODEL}","top_p":Infinity}}', says="JSON")),
    Case(
        "strict.types",
        "a number beyond all bounds names its field",
        refused_body(f'{{"model":"{MODEL}","temperature":1e999,"messages":[]}}', "temperature"),
    ),
    Case("strict.ranges", "temperature up to 2", refused(400, param="temperature", temperature=2.01)),
    Case("strict.ranges", "temperature from 0", refused(400, param="temperature", temperature=-0.1)),
    Case("strict.ranges", "temperature 2 is in", taken(temperature=2)),
    Case("strict.ranges", "top_p above 0", refused(400, param="top_p", top_p=0)),
    Case("strict.ranges", "top_p up to 1", refused(400, param="top_p", top_p=1.5)),
    Case("strict.ranges", "top_p 1 is in", taken(top_p=1)),
    Case("strict.ranges", "text completions know the same ranges", refused(400, None, "top_p", COMPLETIONS, top_p=2)),
    Case("strict.ranges", "n is at least 1", refused(400, param="n", n=0)),
    Case("strict.ranges", "n is a number", refused(400, param="n", n=True)),
    Case(
        "strict.caps",
        "two caps that differ are a contradiction",
        refused(400, param="max_completion_tokens", max_tokens=5, max_completion_tokens=6),
    ),
    Case(
        "strict.text",
        "a NUL is named",
        refused(400, None, "messages[0].content", messages=[USER | {"content": "a\0b"}]),
    ),
    Case("strict.text", "in a stop string too", refused(400, param="stop", stop="\0")),
    Case(
        "strict.text",
        "half a surrogate pair is no text",
        refused_body(
            rf'{{"model":"{MODEL}","messages":[{{"role":"user","content":"\ud83d"}}]}}', "messages[0].content"
        ),
    ),
    Case(
        "strict.text",
        "in text completions too",
        refused_body(rf'{{"model":"{MODEL}","prompt":"\ud83d"}}', "prompt", COMPLETIONS),
    ),
    Case("strict.text", "what is no UTF-8 is no JSON", refused_body(b'{"model":"\xff"}', says="UTF-8")),
    Case("strict.content", "null, missing and empty contents are no text", check_empty_contents),
    Case("strict.arguments", "of earlier calls are decoded where they are JSON", check_arguments),
    Case("strict.roles", "system, user, assistant and tool reach the template", check_roles),
    Case("strict.roles", "a developer is a system where the template knows none", check_developer),
    Case(
        "strict.roles", "any other is a 400", refused(400, None, "messages[0].role", messages=[USER | {"role": "bot"}])
    ),
    Case("strict.roles", "and none at all", refused(400, None, "messages[0].role", messages=[{"content": "x"}])),
    Case("strict.roles", "and a number", refused(400, None, "messages[0].role", messages=[USER | {"role": 5}])),
    Case("contract.reasoning", "both controls are taken", taken(reasoning_effort="high", reasoning={"effort": "low"})),
    Case("contract.reasoning", "switched off", taken(reasoning={"enabled": False})),
    Case("contract.reasoning", "an unknown level", refused(400, param="reasoning_effort", reasoning_effort="huge")),
    Case("contract.reasoning", "an unknown level", refused(400, param="reasoning.effort", reasoning={"effort": "x"})),
    Case("contract.cache", "are taken", taken(conversation_id="c" * 256, prompt_cache_key="k", cache_ttl="24h")),
    Case("contract.cache", "at most 256", refused(400, param="conversation_id", conversation_id="c" * 257)),
    Case("contract.cache", "at most 256", refused(400, param="prompt_cache_key", prompt_cache_key="c" * 257)),
    Case("contract.cache", "one of five times", refused(400, param="cache_ttl", cache_ttl="2h")),
    Case("contract.seed", "reaches the engine", told({"seed": 42}, seed=42)),
    Case("contract.seed", "a fresh one when absent", told({"seed": None})),
    Case("contract.seed", "a whole number", refused(400, param="seed", seed=1.5)),
    Case(
        "contract.response_format",
        "what cannot be kept is refused, never ignored",
        refused(
            400,
            param="response_format.json_schema.schema",
            says="'not'",
            response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {"not": {}}}},
        ),
    ),
    Case("contract.response_format", "any object is taken", taken(response_format={"type": "json_object"})),
    Case(
        "contract.response_format",
        "a schema is taken",
        taken(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer"}}}),
    ),
    Case(
        "contract.response_format",
        "arguments that cannot be held to their schema are refused",
        refused(
            400,
            param="tools[0].function.parameters",
            says="'not'",
            tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "not": {}}}}],
            tool_choice="required",
        ),
    ),
    Case(
        "contract.response_format",
        "a bad shape is named",
        refused(400, param="response_format.type", response_format={"type": "xml"}),
    ),
    Case(
        "contract.response_format",
        "a schema has to be there",
        refused(400, param="response_format.json_schema", response_format={"type": "json_schema"}),
    ),
    Case(
        "fields.tools",
        "functions with a name",
        refused(400, param="tools[0].function.name", tools=[{"type": "function", "function": {}}]),
    ),
    Case("fields.tools", "a list", refused(400, param="tools", tools=TOOL)),
    Case("fields.tools", "none and an empty list mean no tools", taken(CHAT, tools=[], tool_choice="auto")),
)
