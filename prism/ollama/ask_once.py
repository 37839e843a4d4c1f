"""Single questions to the Ollama daemon from code that has no event loop: the command line and the doctor. Blocks for 2 s at most."""

import asyncio

from prism.ollama.daemon import OllamaDaemon
from prism.ollama.inventory import InstalledModel, fetch_models


def ask_for_models(url: str) -> tuple[InstalledModel, ...]:
    """Return the models of the daemon. Raises OllamaError."""
    return asyncio.run(_models(url))


async def _models(url: str) -> tuple[InstalledModel, ...]:
    daemon = OllamaDaemon(url)

    try:
        return await fetch_models(daemon)
    finally:
        await daemon.close()
