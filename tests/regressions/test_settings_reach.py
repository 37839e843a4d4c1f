"""Each setting acts where it should: two servers on the real engine, the settings of one from an env file."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from prism.export.reciting_model import write_reciting_model
from prism.export.tiny_tokenizer import CHATML_TEMPLATE
from prism.setting_source import SettingsError
from prism.settings import ServeFlags, load_serve_settings
from tests.raw_http import send
from tests.served import serving

pytestmark = pytest.mark.engine

MODEL = "reciter"
LONG_ANSWER = 240
TEMPLATE = "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}" + CHATML_TEMPLATE
TOOL = {"type": "function", "function": {"name": "weather"}}
CHANGED = """
# What an operator may write.
export PRISM_THREADS=6
PRISM_PREFILL_CHUNK=off
PRISM_LOOP_GUARD=off
PRISM_TEMPLATE='builtin'
PRISM_ALLOW_SPECIAL_TOKENS=yes   # trusted clients only
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A server, and the file in which its worker writes down what the engine is fed."""

    base_url: str
    feeds: Path

    def post(self, content: str = "hello", **fields: Any) -> tuple[int, Any]:
        body = {"model": MODEL, "messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 1}
        reply = send(self.base_url, "POST", "/v1/chat/completions", body=json.dumps(body | fields))
        return reply.status, reply.json

    def chat(self, content: str = "hello", **fields: Any) -> Any:
        status, answer = self.post(content, **fields)
        assert status == 200, answer
        return answer

    def prompt_tokens(self, content: str) -> int:
        count = self.chat(content)["usage"]["prompt_tokens"]
        assert isinstance(count, int)
        return count

    def worker_pid(self) -> int:
        pid = send(self.base_url, "GET", "/health").json["worker"]["pid"]
        assert isinstance(pid, int)
        return pid

    def slices_of(self, content: str) -> list[int]:
        """Return how the prompt was fed, call by call."""
        self.feeds.write_text("")
        self.chat(content)
        return [int(line) for line in self.feeds.read_text().splitlines()]


def _serving(folder: Path, **variables: str) -> Iterator[Asked]:
    script = [b"ha"] * LONG_ANSWER
    write_reciting_model(folder / "models" / MODEL, script, chat_template=TEMPLATE)
    program = "tests.regressions.serve_recorded"

    with serving(folder, preload=MODEL, program=program, FEEDS=str(folder / "feeds"), **variables) as base_url:
        yield Asked(base_url, folder / "feeds")


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A server with nothing set but the threads, whose usual number depends on the machine."""
    yield from _serving(tmp_path_factory.mktemp("usual"), PRISM_THREADS="1")


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A server that takes everything from its env file."""
    folder = tmp_path_factory.mktemp("changed")
    (folder / "prism.env").write_text(CHANGED)
    yield from _serving(folder, PRISM_ENV_FILE=str(folder / "prism.env"))


def test_threads_are_those_of_the_engine(usual: Asked, changed: Asked) -> None:
    """D-58: what stood in the env file had no effect."""
    counts = [len(list(Path(f"/proc/{asked.worker_pid()}/task").iterdir())) for asked in (usual, changed)]
    assert counts[1] - counts[0] == 6 - 1


def test_a_prompt_is_fed_in_slices_or_whole(usual: Asked, changed: Asked) -> None:
    """B-09 and D-59: in slices unless told otherwise, and `off` is a value like any other."""
    sliced, whole = usual.slices_of("x" * 500), changed.slices_of("x" * 500)
    assert sliced[:-1] == [128] * (len(sliced) - 1)
    assert 0 < sliced[-1] <= 128
    assert len(sliced) >= 4
    assert whole == [sum(sliced)]


def test_the_loop_guard_ends_an_answer_or_does_not(usual: Asked, changed: Asked) -> None:
    """B-11: 240 times the same token is a loop, unless the operator says that it is not."""
    guarded, free = (asked.chat(max_tokens=400) for asked in (usual, changed))
    assert guarded["choices"][0]["finish_reason"] == "length"
    assert 200 <= guarded["usage"]["completion_tokens"] < LONG_ANSWER
    assert free["choices"][0]["finish_reason"] == "stop"
    assert free["choices"][0]["message"]["content"] == "ha" * LONG_ANSWER


def test_the_template_is_the_models_or_built_in(usual: Asked, changed: Asked) -> None:
    """B-54: without the model's template there is no place for tools."""
    assert usual.post(tools=[TOOL])[0] == 200
    status, answer = changed.post(tools=[TOOL])
    assert (status, answer["error"]["code"]) == (400, "tools_not_supported")


def test_control_tokens_that_a_client_types_are_text_or_tokens(usual: Asked, changed: Asked) -> None:
    """Case 88."""
    as_text, as_token = (asked.prompt_tokens("hi<|im_end|>") - asked.prompt_tokens("hi") for asked in (usual, changed))
    assert as_text > 1
    assert as_token == 1


@pytest.mark.parametrize("text", ["abc", "-5", "2.5", "1e2", "on"])
def test_a_chunk_that_is_no_number_is_named(text: str) -> None:
    """B-15."""
    with pytest.raises(SettingsError, match=r"^PRISM_PREFILL_CHUNK must be") as caught:
        load_serve_settings(ServeFlags(), {"HOME": "/home/me", "PRISM_PREFILL_CHUNK": text})

    assert len(caught.value.problems) == 1


def test_the_front_never_loads_the_engine(usual: Asked) -> None:
    """D-27: what a native library does in the front, all clients feel."""
    worker = usual.worker_pid()
    front = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
    assert "onnxruntime" in Path(f"/proc/{worker}/maps").read_text()
    assert "onnxruntime" not in Path(f"/proc/{front}/maps").read_text()
