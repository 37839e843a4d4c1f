"""LiteLLM's `completion` against a server: one answer, a stream, tools, errors. Prints one JSON line.

Run in an environment of its own, with PRISM_URL, PRISM_KEY, PRISM_MODEL and PRISM_TOOL_MODEL set.
"""
# The package is not in the environment that checks types.
# mypy: disable-error-code="import-not-found"

import json
import os
import sys
from importlib.metadata import version

import litellm

SERVER = {"api_base": os.environ["PRISM_URL"], "api_key": os.environ["PRISM_KEY"], "num_retries": 0, "timeout": 60}
MODEL, TOOL_MODEL = "openai/" + os.environ["PRISM_MODEL"], "openai/" + os.environ["PRISM_TOOL_MODEL"]
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def one_shot() -> str:
    answer = litellm.completion(model=MODEL, messages=QUESTION, temperature=0, max_tokens=40, **SERVER)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens > 0
    return str(answer.choices[0].message.content)


def stream() -> str:
    pieces = litellm.completion(
        model=MODEL,
        messages=QUESTION,
        temperature=0,
        max_tokens=40,
        stream=True,
        stream_options={"include_usage": True},
        **SERVER,
    )
    chunks = list(pieces)
    assert chunks[-1].usage.completion_tokens > 0
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def tools() -> str:
    messages = [{"role": "user", "content": "How warm is it in Paris?"}]
    answer = litellm.completion(model=TOOL_MODEL, messages=messages, tools=[WEATHER], **SERVER)
    (call,) = answer.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    messages += [answer.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "21"}]
    second = litellm.completion(model=TOOL_MODEL, messages=messages, tools=[WEATHER], **SERVER)
    return str(second.choices[0].message.content)


def errors() -> list[str]:
    seen = []

    for kind, fields in (
        (litellm.NotFoundError, {"model": "openai/no-such-model"}),
        (litellm.AuthenticationError, {"api_key": "wrong"}),
        # Told from other bad requests by the words of its message only.
        (litellm.ContextWindowExceededError, {"messages": [{"role": "user", "content": "word " * 9000}]}),
        (litellm.BadRequestError, {"temperature": 9}),
    ):
        try:
            litellm.completion(**{"model": MODEL, "messages": QUESTION, **SERVER, **fields})
        except kind as error:
            seen.append(f"{type(error).__name__} {error.status_code}")

    assert len(seen) == 4, seen
    return seen


def main() -> None:
    seen: dict[str, object] = {"client": "litellm", "version": version("litellm")}

    for check in (one_shot, stream, tools, errors):
        seen[check.__name__] = check()

    assert seen["one_shot"] == seen["stream"]
    assert "Paris" in str(seen["one_shot"])
    sys.stdout.write(json.dumps(seen) + "\n")


main()
