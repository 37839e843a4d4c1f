"""Clients that are Python packages."""

from pathlib import Path

import pytest

from tests.clients.client_environment import python_environment
from tests.clients.conftest import Report
from tests.clients.served_prism import ServedPrism

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]

ANSWER = "The capital of France is Paris."
WORDS = "It is 21 degrees in Paris."


def test_the_openai_package_works(server: ServedPrism, folder: Path, report: Report) -> None:
    seen = python_environment(folder, server, ["openai"]).run_script("python", "openai_python.py")
    report(seen)

    assert seen["chat"] == ANSWER
    assert seen["tools_loop"] == WORDS


def test_langchain_works(server: ServedPrism, folder: Path, report: Report) -> None:
    environment = python_environment(folder, server, ["langchain-openai"])
    seen = environment.run_script("python", "langchain_openai_chat.py", LANGSMITH_TRACING="false")
    report(seen)

    assert seen["invoke"] == ANSWER
    assert seen["tools_loop"] == WORDS


def test_litellm_works(server: ServedPrism, folder: Path, report: Report) -> None:
    environment = python_environment(folder, server, ["litellm"])
    # Its list of prices is asked for over the network otherwise.
    seen = environment.run_script("python", "litellm_completion.py", LITELLM_LOCAL_MODEL_COST_MAP="True")
    report(seen)

    assert seen["one_shot"] == ANSWER
    assert seen["tools"] == WORDS


def test_instructor_works(server: ServedPrism, folder: Path, report: Report) -> None:
    seen = python_environment(folder, server, ["instructor", "openai"]).run_script("python", "instructor_modes.py")
    report(seen)

    assert seen["json_schema"] == 4
    assert seen["tools"] == 4


LLM_MODELS = """
- model_id: prism
  model_name: smollm2-135m
  api_base: "{url}"
  api_key_name: prism
- model_id: prism-tools
  model_name: calls-weather
  api_base: "{url}"
  api_key_name: prism
  supports_tools: true
- model_id: prism-text
  model_name: smollm2-135m
  api_base: "{url}"
  api_key_name: prism
  completion: true
"""
LLM_FUNCTION = """
def get_weather(city: str) -> str:
    "The weather of a city now."
    return "21 degrees in " + city
"""


def test_the_llm_command_works(server: ServedPrism, folder: Path, report: Report) -> None:
    environment = python_environment(folder, server, ["llm"])
    (folder / "extra-openai-models.yaml").write_text(LLM_MODELS.format(url=server.url))

    def llm(*arguments: str) -> str:
        return environment.run("llm", *arguments, LLM_USER_PATH=str(folder)).strip()

    def ask(model: str, prompt: str, *flags: str) -> str:
        return llm("-m", model, "-o", "temperature", "0", "-o", "max_tokens", "40", *flags, prompt)

    llm("keys", "set", "prism", "--value", server.key)
    question = "What is the capital of France?"
    seen: dict[str, object] = {
        "client": "llm",
        "version": llm("--version").split()[-1],
        "one shot": ask("prism", question, "--no-stream"),
        "stream": ask("prism", question),
        "continued": llm("-c", "-o", "temperature", "0", "-o", "max_tokens", "20", "And of Italy?"),
        "completion": llm("-m", "prism-text", "-o", "temperature", "0", "-o", "max_tokens", "6", "One, two, three,"),
        "tools": llm("-m", "prism-tools", "--functions", LLM_FUNCTION, "How warm is it in Paris?"),
        "tools, no stream": llm("-m", "prism-tools", "--no-stream", "--functions", LLM_FUNCTION, "How warm is it?"),
    }
    report(seen)

    assert seen["one shot"] == seen["stream"] == ANSWER
    assert seen["continued"]
    assert seen["completion"] == "four, five, six,"
    assert seen["tools"] == seen["tools, no stream"] == WORDS
