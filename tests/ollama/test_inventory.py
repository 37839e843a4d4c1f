"""Which models the daemon has: believed for five seconds, asked once at a time, and never waited for long."""

import asyncio

import pytest
from aiohttp import web

from prism.ollama.bounds import OllamaBounds
from prism.ollama.daemon import OllamaDaemon
from prism.ollama.errors import DaemonUnreachable, OllamaError
from prism.ollama.inventory import BELIEVED_FOR_S, InstalledModel, Inventory
from tests.ollama.fake_daemon import FakeDaemon


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_models_are_told_with_size_and_time(client: OllamaDaemon, daemon: FakeDaemon) -> None:
    daemon.models = {"llama3.1:latest": 4 * (1 << 30) + 1, "nomic:v1.5": 0}
    assert await Inventory(client).models() == (
        InstalledModel("llama3.1:latest", 4096.0, 1_793_829_409),
        InstalledModel("nomic:v1.5", 0.0, 1_793_829_409),
    )


async def test_they_are_believed_for_five_seconds(client: OllamaDaemon, daemon: FakeDaemon) -> None:
    clock = Clock()
    inventory = Inventory(client, clock)
    daemon.models = {"a:latest": 1}
    await inventory.models()
    daemon.models = {"b:latest": 1}
    clock.now += BELIEVED_FOR_S - 0.1
    assert [model.name for model in await inventory.models()] == ["a:latest"]
    clock.now += 0.2
    assert [model.name for model in await inventory.models()] == ["b:latest"]
    assert len(daemon.asked) == 2


async def test_all_who_ask_at_once_share_one_question(client: OllamaDaemon, daemon: FakeDaemon) -> None:
    inventory = Inventory(client)
    await asyncio.gather(*(inventory.models() for _ in range(50)))
    assert len(daemon.asked) == 1


async def test_one_who_leaves_takes_the_answer_from_nobody(client: OllamaDaemon, daemon: FakeDaemon) -> None:
    daemon.models = {"a:latest": 1}
    inventory = Inventory(client)
    leaver = asyncio.create_task(inventory.models())
    stayer = asyncio.create_task(inventory.models())
    await asyncio.sleep(0)
    leaver.cancel()
    assert len(await stayer) == 1


@pytest.mark.parametrize("name", ["llama3.1", "llama3.1:latest", "LLAMA3.1", "Llama3.1:Latest"])
async def test_a_name_without_a_tag_means_latest(client: OllamaDaemon, daemon: FakeDaemon, name: str) -> None:
    daemon.models = {"llama3.1:8b": 1, "llama3.1:latest": 1}
    found = await Inventory(client).find(name)
    assert found is not None
    assert found.name == "llama3.1:latest"


@pytest.mark.parametrize("name", ["llama3", "llama3.1:8b", "3.1", "llama3.1:", ":latest", "x"])
async def test_other_names_mean_nothing(client: OllamaDaemon, daemon: FakeDaemon, name: str) -> None:
    daemon.models = {"llama3.1:latest": 1}
    assert await Inventory(client).find(name) is None


async def test_a_colon_of_an_address_is_no_tag(client: OllamaDaemon, daemon: FakeDaemon) -> None:
    daemon.models = {"registry:5000/me/model:latest": 1}
    found = await Inventory(client).find("registry:5000/me/model")
    assert found is not None


async def test_no_daemon_has_no_models_and_the_reason_is_kept() -> None:
    client = OllamaDaemon("http://127.0.0.1:9")
    inventory = Inventory(client)
    assert await inventory.models() == ()
    assert await inventory.find("x") is None

    with pytest.raises(DaemonUnreachable):
        await inventory.find_or_raise("x")

    await client.close()


async def test_one_that_does_not_answer_is_waited_for_once(daemon: FakeDaemon) -> None:
    async def say_nothing() -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    daemon.tags = say_nothing
    client = OllamaDaemon(daemon.url, OllamaBounds(list_s=0.5))
    clock = Clock()
    inventory = Inventory(client, clock)
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await inventory.models() == ()
    assert 0.4 < loop.time() - began < 3

    with pytest.raises(OllamaError):
        await inventory.find_or_raise("x")

    clock.now += BELIEVED_FOR_S
    began = loop.time()
    assert await inventory.models() == ()
    assert loop.time() - began < 0.4
    await inventory.close()
    await client.close()


@pytest.mark.parametrize(
    "answer", ["{}", '{"models": null}', '{"models": []}', '{"models": [{"name": " "}]}', "[]", "x", ""]
)
async def test_a_list_that_holds_nothing_is_empty(client: OllamaDaemon, daemon: FakeDaemon, answer: str) -> None:
    async def tags() -> web.StreamResponse:
        return web.Response(text=answer)

    daemon.tags = tags
    assert await Inventory(client).models() == ()


@pytest.mark.parametrize("stamp", ["", "yesterday", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00"])
async def test_a_time_that_is_none_is_zero_at_the_least(client: OllamaDaemon, daemon: FakeDaemon, stamp: str) -> None:
    async def tags() -> web.StreamResponse:
        return web.json_response({"models": [{"name": "a:latest", "size": -5, "modified_at": stamp}]})

    daemon.tags = tags
    (model,) = await Inventory(client).models()
    assert model.created >= 0
    assert model.size_mb == 0
