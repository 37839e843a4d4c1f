"""LangChain's ChatOpenAI against a server: invoke, stream, usage, tools. Prints one JSON line.

Run in an environment of its own, with PRISM_URL, PRISM_KEY, PRISM_MODEL and PRISM_TOOL_MODEL set.
"""
# The package is not in the environment that checks types.
# mypy: disable-error-code="import-not-found, untyped-decorator"

import asyncio
import json
import os
import sys
from importlib.metadata import version

from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import NotFoundError

URL, KEY = os.environ["PRISM_URL"], os.environ["PRISM_KEY"]
QUESTION = [SystemMessage("You answer in one sentence."), HumanMessage("What is the capital of France?")]

chat = ChatOpenAI(
    model=os.environ["PRISM_MODEL"], base_url=URL, api_key=KEY, temperature=0, max_tokens=40, max_retries=0, timeout=60
)


def invoke() -> str:
    answer = chat.invoke(QUESTION)
    assert "Paris" in answer.content
    assert answer.response_metadata["finish_reason"] == "stop"
    usage = answer.usage_metadata
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] > 0
    return str(answer.content)


def stream() -> str:
    pieces = list(chat.stream(QUESTION, stream_usage=True))
    assert all(isinstance(piece, AIMessageChunk) for piece in pieces)
    whole = pieces[0]

    for piece in pieces[1:]:
        whole = whole + piece

    assert len(pieces) > 3
    assert whole.usage_metadata["output_tokens"] > 0
    assert whole.response_metadata["finish_reason"] == "stop"
    return str(whole.content)


def batch() -> list[str]:
    return [str(answer.content) for answer in chat.batch([QUESTION, QUESTION, QUESTION])]


async def astream() -> str:
    return "".join([str(piece.content) async for piece in chat.astream(QUESTION)])


def stop() -> str:
    return str(chat.invoke(QUESTION, stop=[" Paris"]).content)


@tool
def get_weather(city: str) -> str:
    """The weather of a city now."""
    assert city == "Paris"
    return "21 degrees"


def tools_loop() -> str:
    calling = ChatOpenAI(
        model=os.environ["PRISM_TOOL_MODEL"], base_url=URL, api_key=KEY, max_retries=0, timeout=60
    ).bind_tools([get_weather])
    messages = [HumanMessage("How warm is it in Paris?")]
    first = calling.invoke(messages)
    assert [(call["name"], call["args"]) for call in first.tool_calls] == [("get_weather", {"city": "Paris"})]
    assert first.invalid_tool_calls == []

    streamed = None

    for piece in calling.stream(messages):
        streamed = piece if streamed is None else streamed + piece

    assert streamed is not None
    assert [call["name"] for call in streamed.tool_calls] == ["get_weather"]

    results = [get_weather.invoke(call) for call in first.tool_calls]
    second = calling.invoke([*messages, first, *results])
    assert second.tool_calls == []
    return str(second.content)


def structured_output() -> dict[str, str]:
    """By a call, since the package's own default, `response_format`, is another matter."""
    calling = ChatOpenAI(model=os.environ["PRISM_TOOL_MODEL"], base_url=URL, api_key=KEY, max_retries=0, timeout=60)
    schema = {
        "title": "get_weather",
        "description": "A city.",
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    answer: dict[str, str] = calling.with_structured_output(schema, method="function_calling").invoke("Where?")
    assert answer == {"city": "Paris"}
    return answer


def errors() -> list[str]:
    unknown = ChatOpenAI(model="no-such-model", base_url=URL, api_key=KEY, max_retries=0, timeout=60)
    seen = []

    for kind, client, text in (
        (ContextOverflowError, chat, "word " * 9000),
        (NotFoundError, unknown, "Hi"),
    ):
        try:
            client.invoke(text)
        except kind as error:
            seen.append(type(error).__name__)

    assert len(seen) == 2, seen
    return seen


def main() -> None:
    seen: dict[str, object] = {"client": "langchain-openai", "version": version("langchain-openai")}

    for check in (invoke, stream, batch, stop, tools_loop, structured_output, errors):
        seen[check.__name__] = check()

    seen["astream"] = asyncio.run(astream())
    answers = seen["batch"]
    assert isinstance(answers, list)
    assert {seen["invoke"], seen["stream"], seen["astream"], *answers} == {seen["invoke"]}
    assert " Paris" not in str(seen["stop"])
    sys.stdout.write(json.dumps(seen) + "\n")


main()
