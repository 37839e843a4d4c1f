"""Files of a model that go away or are cut while it waits, loads or works. With the real engine: one typed error, and no hang."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prism.export.tiny_model import write_tiny_model
from supervisor.host_status import HostState
from supervisor.settings import ModelRef
from tests.whole.conftest import Server, Start

pytestmark = pytest.mark.engine

Damage = Callable[[Path], None]
BOUND_S = 40.0


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def remove_data(folder: Path) -> None:
    (folder / "model.onnx.data").unlink()


def empty_data(folder: Path) -> None:
    os.truncate(folder / "model.onnx.data", 0)


def halve_data(folder: Path) -> None:
    os.truncate(folder / "model.onnx.data", 200_000)


def halve_graph(folder: Path) -> None:
    os.truncate(folder / "model.onnx", 4_000)


def cut_tokenizer(folder: Path) -> None:
    os.truncate(folder / "tokenizer.json", 100)


DAMAGES = (remove_folder, remove_data, empty_data, halve_data, halve_graph, cut_tokenizer)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    write_tiny_model(folder / "whole")
    write_tiny_model(folder / "damaged")
    return folder


async def ask(server: Server, model: str, max_tokens: int = 3) -> tuple[int, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": "x"}], "max_tokens": max_tokens}

    async with server.post("/v1/chat/completions", body) as response:
        return response.status, await response.json()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_files_that_go_away_while_a_request_waits_are_a_failed_load(
    start_server: Start, models: Path, damage: Damage
) -> None:
    server = await start_server(None)

    # The turn is held, so the request has found its model and waits.
    async with server.services.host.turn(await _ref(server, "whole")):
        waiting = asyncio.create_task(ask(server, "damaged"))

        async with asyncio.timeout(10):
            while server.services.host.status().waiting == 0:
                await asyncio.sleep(0.005)

        damage(models / "damaged")

    status, answer = await asyncio.wait_for(waiting, BOUND_S)
    assert (status, answer["error"]["code"]) == (500, "model_load_failed"), answer
    assert "\n" not in answer["error"]["message"]
    assert (await asyncio.wait_for(ask(server, "whole"), BOUND_S))[0] == 200


async def _ref(server: Server, name: str) -> ModelRef:
    entry = await server.services.catalog.resolve(name)
    return ModelRef(entry.id, entry.path)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_files_that_go_away_under_a_loaded_model_cost_at_most_the_request(
    start_server: Start, models: Path, damage: Damage
) -> None:
    """The engine may have read them, or may have mapped them: then the next look at a lost page ends the worker."""
    server = await start_server(None)
    assert (await ask(server, "damaged"))[0] == 200
    damage(models / "damaged")
    status, answer = await asyncio.wait_for(ask(server, "damaged", max_tokens=20), BOUND_S)
    told = (status, answer.get("error", {}).get("code"))
    assert told in ((200, None), (404, "model_not_found"), (500, "engine_crashed"), (500, "model_load_failed")), answer
    assert (await asyncio.wait_for(ask(server, "whole"), BOUND_S))[0] == 200


@pytest.mark.parametrize("delay_s", [0.0, 0.1, 0.2, 0.3, 0.4, 0.6])
async def test_files_that_go_away_during_the_load_never_hang_it(
    start_server: Start, models: Path, delay_s: float
) -> None:
    server = await start_server(None)
    asking = asyncio.create_task(ask(server, "damaged"))

    async with asyncio.timeout(10):
        while server.services.host.status().state is HostState.IDLE:
            await asyncio.sleep(0.002)

    await asyncio.sleep(delay_s)
    halve_data(models / "damaged")
    halve_graph(models / "damaged")
    status, answer = await asyncio.wait_for(asking, BOUND_S)
    told = (status, answer.get("error", {}).get("code"))
    assert told in ((200, None), (500, "engine_crashed"), (500, "model_load_failed")), answer
    assert (await asyncio.wait_for(ask(server, "whole"), BOUND_S))[0] == 200


async def test_a_model_whose_files_are_back_is_served_again(start_server: Start, models: Path) -> None:
    server = await start_server(None)

    async with server.services.host.turn(await _ref(server, "whole")):
        waiting = asyncio.create_task(ask(server, "damaged"))

        async with asyncio.timeout(10):
            while server.services.host.status().waiting == 0:
                await asyncio.sleep(0.005)

        halve_graph(models / "damaged")

    assert (await asyncio.wait_for(waiting, BOUND_S))[0] == 500
    shutil.rmtree(models / "damaged")
    write_tiny_model(models / "damaged")
    assert (await asyncio.wait_for(ask(server, "damaged"), BOUND_S))[0] == 200
