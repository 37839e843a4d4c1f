"""The catalog for coroutines: a walk over the model folders happens in a thread while the event loop goes on.

Used by the HTTP handlers. Apart from `prism.catalog` so that the command line need not load asyncio.
"""

import asyncio

from prism.catalog import Catalog
from prism.model_entry import ModelEntry


class AsyncCatalog:
    """A catalog whose questions are awaited."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def models(self) -> tuple[ModelEntry, ...]:
        """See `Catalog.models`."""
        return await asyncio.to_thread(self._catalog.models)

    async def find_exact(self, name: str) -> ModelEntry | None:
        """See `Catalog.find_exact`."""
        return await asyncio.to_thread(self._catalog.find_exact, name)

    async def resolve(self, name: str) -> ModelEntry:
        """See `Catalog.resolve`."""
        return await asyncio.to_thread(self._catalog.resolve, name)
