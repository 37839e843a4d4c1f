"""A fake daemon in the test's own event loop, and whole servers that pass requests on to it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from prism.ollama.bounds import OllamaBounds
from prism.ollama.daemon import OllamaDaemon
from tests.ollama.fake_daemon import FakeDaemon, running
from tests.whole.conftest import Server, start_process, start_server

__all__ = ["start_process", "start_server"]

# Long enough for a busy machine, short enough for a test that waits for one.
QUICK = OllamaBounds(connect_s=2.0, list_s=0.3, idle_s=0.4, line_bytes=4096, answer_bytes=1 << 19)


@pytest.fixture
async def daemon() -> AsyncIterator[FakeDaemon]:
    """A daemon without models."""
    async with running(FakeDaemon()) as daemon:
        yield daemon


@pytest.fixture
async def client(daemon: FakeDaemon) -> AsyncIterator[OllamaDaemon]:
    """Our client of the daemon."""
    client = OllamaDaemon(daemon.url)
    yield client
    await client.close()


StartBeside = Callable[..., Awaitable[Server]]


@pytest.fixture
def start_beside(start_server: Callable[..., Awaitable[Server]], daemon: FakeDaemon) -> StartBeside:
    """Return a function that starts a server whose daemon is the fake one. bounds: of its patience with it."""

    async def start(*, bounds: OllamaBounds | None = None, **changes: Any) -> Server:
        server = await start_server(**{"ollama_url": daemon.url, **changes})

        if bounds is not None:
            server.services.ollama.bounds = bounds

        return server

    return start
