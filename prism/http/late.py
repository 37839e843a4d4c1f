"""The handlers that generate, imported after the server listens.

Templates and the readers of answers take a third of the time that all imports take, and `/health` need not wait for them. The import
runs in a thread right after the start; a request that comes sooner waits for it.
"""

import asyncio
from types import ModuleType

from aiohttp import web


async def chat_completions(request: web.Request) -> web.StreamResponse:
    """See `prism.http.chat_completions`."""
    from prism.http.chat_completions import chat_completions as handle

    return await handle(request)


async def completions(request: web.Request) -> web.StreamResponse:
    """See `prism.http.completions`."""
    from prism.http.completions import completions as handle

    return await handle(request)


async def import_handlers() -> None:
    """Import them now, while the loop goes on."""
    await asyncio.to_thread(_import)


def _import() -> tuple[ModuleType, ModuleType]:
    import prism.http.chat_completions
    import prism.http.completions

    return prism.http.chat_completions, prism.http.completions
