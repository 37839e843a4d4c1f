"""The same against a real daemon, where its program is on PATH: started here with an empty folder, on a port of its own.

Without a network it has no models, so what can be seen is how it speaks: its list, its refusals, its errors. A model that is named by
PRISM_TEST_OLLAMA_MODEL is pulled first and answers.
"""

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prism.ollama.bounds import OllamaBounds
from prism.ollama.daemon import OllamaDaemon
from prism.ollama.errors import DaemonRefused, DaemonUnreachable
from prism.ollama.inventory import fetch_models
from prism.ollama.pull import pull_model
from tests.ollama.conftest import StartBeside
from tests.whole.conftest import Server

OLLAMA = shutil.which("ollama")
MODEL = os.environ.get("PRISM_TEST_OLLAMA_MODEL")

pytestmark = [
    pytest.mark.ollama,
    pytest.mark.skipif(OLLAMA is None, reason="there is no `ollama` on PATH"),
    pytest.mark.timeout(600),
]


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[OllamaDaemon]:
    assert OLLAMA is not None

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

    models = os.environ.get("OLLAMA_MODELS", str(tmp_path / "models"))
    environment = {**os.environ, "OLLAMA_HOST": f"127.0.0.1:{port}", "OLLAMA_MODELS": models, "HOME": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(
        OLLAMA, "serve", env=environment, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    daemon = OllamaDaemon(f"http://127.0.0.1:{port}", OllamaBounds(list_s=5.0))

    try:
        await _wait_listening(daemon)
        yield daemon
    finally:
        await daemon.close()
        process.terminate()
        await process.wait()


async def _wait_listening(daemon: OllamaDaemon) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await fetch_models(daemon)
            except DaemonUnreachable:
                await asyncio.sleep(0.1)
            else:
                return


@pytest.fixture
async def server(start_beside: StartBeside, real: OllamaDaemon) -> Server:
    return await start_beside(ollama_url=real.url)


async def test_a_model_that_it_does_not_have_is_a_404_on_every_route(server: Server) -> None:
    for path, asked in (
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
        ("/v1/completions", {"prompt": "x"}),
        ("/v1/embeddings", {"input": "x"}),
    ):
        async with server.post(path, {"model": "ollama:no-such-model", **asked}) as response:
            answer = await response.json()
            assert (response.status, answer["error"]["code"]) == (404, "model_not_found"), answer


async def test_a_pull_of_nothing_is_refused(real: OllamaDaemon) -> None:
    with pytest.raises(DaemonRefused):
        await pull_model(real, "no-such-model-of-anybody:x", lambda *_: None)


@pytest.mark.skipif(MODEL is None, reason="PRISM_TEST_OLLAMA_MODEL names no model")
async def test_a_model_answers(server: Server, real: OllamaDaemon) -> None:
    assert MODEL is not None
    await pull_model(real, MODEL, lambda *_: None)
    assert any(model.name.startswith(MODEL) for model in await fetch_models(real))
    answer = await server.chat(f"ollama:{MODEL}", max_tokens=8)
    assert answer["choices"][0]["message"]["content"]
    assert answer["usage"]["completion_tokens"] <= 8
    events = await server.stream(f"ollama:{MODEL}", max_tokens=8, stop=["zzz"], seed=1, reasoning_effort="high")
    assert events[-1] == "[DONE]"
    assert events[-2]["choices"][0]["finish_reason"] in ("stop", "length")
