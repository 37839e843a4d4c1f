"""Which names lead to the daemon, and what the lists of models say."""

from typing import Any

import pytest

from tests.ollama.conftest import StartBeside
from tests.ollama.fake_daemon import FakeDaemon, last, line
from tests.whole.conftest import Server


async def answered_by(server: Server, model: str) -> str:
    """Return who answers a chat, or the code of the error."""
    body = {"model": model, "messages": [{"role": "user", "content": "x"}]}

    async with server.post("/v1/chat/completions", body) as response:
        answer = await response.json()

        if response.status != 200:
            return str(answer["error"]["code"])

        assert answer["model"] == model
        return "onnx" if "telemetry" in answer else "ollama"


@pytest.fixture
async def server(start_beside: StartBeside, daemon: FakeDaemon, make_model: Any) -> Server:
    """Names here and there, some of them the same."""
    for name in ("both", "tiny-onnx", "Phi-4-mini-instruct-generic-cpu"):
        make_model(name)

    daemon.models = {"both": 1, "llama3.1:latest": 1, "tiny:latest": 1, "phi-4-mini:latest": 1}
    answer = (line("x"), last())
    daemon.chats = dict.fromkeys(("both", "llama3.1:latest", "llama3.1", "tiny:latest", "phi-4-mini:latest"), answer)
    return await start_beside()


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("ollama:llama3.1", "ollama"),
        (" Ollama:llama3.1 ", "ollama"),
        ("llama3.1", "ollama"),
        ("llama3.1:latest", "ollama"),
        ("LLAMA3.1", "ollama"),
        # The id of a model here wins over the daemon's, the prefix over both.
        ("both", "onnx"),
        ("BOTH", "onnx"),
        ("ollama:both", "ollama"),
        # A name there wins over an alias and a part of a name here.
        ("phi-4-mini", "ollama"),
        ("tiny", "ollama"),
        ("tiny-o", "onnx"),
        # Parts of names of the daemon's are none, and the prefix is taken off once.
        ("llama", "model_not_found"),
        ("ollama:llama", "model_not_found"),
        ("ollama:ollama:llama3.1", "model_not_found"),
        ("ollama:", "model_not_found"),
        ("my-ollama:llama3.1", "model_not_found"),
    ],
)
async def test_who_answers_to_a_name(server: Server, name: str, who: str) -> None:
    """D-29."""
    assert await answered_by(server, name) == who


async def test_the_daemon_gets_its_own_name(server: Server, daemon: FakeDaemon) -> None:
    await server.chat("LLAMA3.1")
    await server.chat("ollama:llama3.1")
    assert [body["model"] for body in daemon.bodies()] == ["llama3.1:latest", "llama3.1"]


async def test_a_model_that_is_certain_costs_the_daemon_no_question(server: Server, daemon: FakeDaemon) -> None:
    await server.chat("tiny-onnx")
    assert daemon.asked == []


async def test_the_list_has_both_and_every_id_of_it_works(server: Server) -> None:
    async with server.get("/v1/models") as response:
        models = (await response.json())["data"]

    ids = [model["id"] for model in models]
    assert set(ids[:3]) == {"both", "tiny-onnx", "Phi-4-mini-instruct-generic-cpu"}
    assert ids[3:] == ["ollama:both", "llama3.1:latest", "tiny:latest", "phi-4-mini:latest"]

    for model in models:
        async with server.get(f"/v1/models/{model['id']}") as response:
            assert await response.json() == model

        assert await answered_by(server, model["id"]) == ("onnx" if "exported_for" in model else "ollama")


async def test_a_card_says_what_is_known(server: Server) -> None:
    async with server.get("/v1/models/ollama:llama3.1") as response:
        assert await response.json() == {
            "id": "ollama:llama3.1:latest",
            "object": "model",
            "created": 1_793_829_409,
            "owned_by": "Ollama (llama.cpp)",
            "size_mb": 0.0,
            "device": "chosen by Ollama",
        }


async def test_a_model_that_the_daemon_does_not_have_is_a_404(server: Server) -> None:
    async with server.get("/v1/models/ollama:nope") as response:
        error = (await response.json())["error"]
        assert (response.status, error["code"], error["param"]) == (404, "model_not_found", "model")
        assert "prism pull ollama:nope" in error["message"]


async def test_without_a_daemon_the_servers_own_models_are_as_they_were(
    start_beside: StartBeside, make_model: Any
) -> None:
    make_model("tiny-onnx")
    server = await start_beside(ollama_url="http://127.0.0.1:9")
    assert await answered_by(server, "tiny") == "onnx"

    async with server.get("/v1/models") as response:
        assert [model["id"] for model in (await response.json())["data"]] == ["tiny-onnx"]

    async with server.get("/v1/models/ollama:x") as response:
        assert (response.status, (await response.json())["error"]["code"]) == (502, "backend_unavailable")
