"""Which models the Ollama daemon has. Owned by the server's services, in its event loop; asked for lists and for every name.

A list is believed for five seconds. One question at a time goes to the daemon, and all who ask share it. Who asks waits two seconds at the
most, and hardly at all while a daemon does not answer at all: it must not make the server's own models wait.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from prism.ollama.daemon import OllamaDaemon
from prism.ollama.errors import DaemonSilent, OllamaError
from prism.ollama.wire import Tags, decoded

logger = logging.getLogger(__name__)

BELIEVED_FOR_S: Final = 5.0
OWNED_BY: Final = "Ollama (llama.cpp)"
# For the answer of a daemon that did not answer the last time.
_SHORT_PATIENCE_S: Final = 0.1
_DEFAULT_TAG: Final = "latest"
_MIB: Final = 1 << 20

_TAGS = msgspec.json.Decoder(Tags)


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """name: with its tag, as the daemon has it. created: when it was last changed, Unix seconds; 0 when the daemon does not say."""

    name: str
    size_mb: float
    created: int


async def fetch_models(daemon: OllamaDaemon) -> tuple[InstalledModel, ...]:
    """Ask the daemon. Raises OllamaError."""
    tags = decoded(await daemon.fetch("/api/tags", daemon.bounds.list_s), _TAGS)
    return tuple(
        InstalledModel(tag.name, round(max(tag.size, 0) / _MIB, 1), _unix_time(tag.modified_at))
        for tag in tags.models or ()
        if tag.name.strip()
    )


class Inventory:
    """The list of installed models, as it was seen last."""

    def __init__(self, daemon: OllamaDaemon, clock: Callable[[], float] = time.monotonic) -> None:
        self._daemon = daemon
        self._clock = clock
        self._models: tuple[InstalledModel, ...] = ()
        self._fault: OllamaError | None = None
        self._asked_at: float | None = None
        self._question: asyncio.Task[None] | None = None

    async def models(self) -> tuple[InstalledModel, ...]:
        """Return the models; none when the daemon cannot be asked."""
        await self._refresh()
        return self._models

    async def find(self, name: str) -> InstalledModel | None:
        """Return the model of this name, in any case, with `latest` where no tag is given; None when there is none."""
        wanted = _with_tag(name).casefold()
        return next((model for model in await self.models() if _with_tag(model.name).casefold() == wanted), None)

    async def find_or_raise(self, name: str) -> InstalledModel | None:
        """As `find`, for a name that can only be the daemon's. Raises OllamaError when the daemon cannot be asked."""
        found = await self.find(name)

        if self._fault is not None:
            raise self._fault

        return found

    async def close(self) -> None:
        """Forget a question that is still open."""
        if self._question is not None:
            self._question.cancel()
            await asyncio.gather(self._question, return_exceptions=True)

    async def _refresh(self) -> None:
        if self._asked_at is not None and self._clock() - self._asked_at < BELIEVED_FOR_S:
            return

        if self._question is None or self._question.done():
            self._question = asyncio.create_task(self._ask())

        is_slow = isinstance(self._fault, DaemonSilent)
        await asyncio.wait({self._question}, timeout=_SHORT_PATIENCE_S if is_slow else self._daemon.bounds.list_s)

    async def _ask(self) -> None:
        had_fault = self._fault is not None

        try:
            self._models, self._fault = await fetch_models(self._daemon), None
        except OllamaError as error:
            self._models, self._fault = (), error

            if not had_fault:
                logger.info("[ollama %s] no models are listed: %s", self._daemon.url, error)

        self._asked_at = self._clock()


def _with_tag(name: str) -> str:
    """Return the name with a tag. A colon in front of a slash belongs to the registry's address."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:{_DEFAULT_TAG}"


def _unix_time(text: str) -> int:
    try:
        return max(0, int(datetime.fromisoformat(text).timestamp()))
    except (ValueError, OverflowError):
        return 0
