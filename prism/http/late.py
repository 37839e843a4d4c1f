"""The handlers that generate, imported after the server listens.

Templates and the readers of answers take a third of the time that all imports take, and `/health` need not wait for them. The import
runs in a thread right after the start; a request that comes sooner waits for it.
"""

import asyncio
import logging
from types import ModuleType

from aiohttp import web

from prism.http.services import SERVICES

logger = logging.getLogger(__name__)


async def chat_completions(request: web.Request) -> web.StreamResponse:
    """See `prism.http.chat_completions`."""
    await request.app[SERVICES].pace.begin()

    from prism.http.chat_completions import chat_completions as handle

    return await handle(request)


async def completions(request: web.Request) -> web.StreamResponse:
    """See `prism.http.completions`."""
    await request.app[SERVICES].pace.begin()

    from prism.http.completions import completions as handle

    return await handle(request)


async def import_handlers() -> None:
    """Import them now, while the loop goes on. Where the system refuses (too many files are open) the first request tries again."""
    try:
        await asyncio.to_thread(_import)
    except OSError as error:
        logger.warning("the handlers that generate are not imported yet: %s", error)


def _import() -> tuple[ModuleType, ModuleType]:
    import prism.http.chat_completions
    import prism.http.completions

    return prism.http.chat_completions, prism.http.completions
