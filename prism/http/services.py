"""What the handlers share: made once by `prism.http.serve` (and by tests), found in the application under `SERVICES`."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

from prism.async_catalog import AsyncCatalog
from prism.http.access import AccessRules, KeyScopes
from prism.http.body_room import BodyRoom
from prism.http.machine import Machine
from prism.http.pace import Pace
from prism.http.prompt_thread import PromptThread
from prism.ollama.daemon import OllamaDaemon
from prism.ollama.inventory import Inventory
from prism.settings import ServeSettings
from supervisor.model_host import ModelHost

logger = logging.getLogger(__name__)

# From the answer of a drain to the end of the process.
EXIT_DELAY_S = 0.25


def _no_last_resort() -> None:
    """Trust that the server ends."""


@dataclass(kw_only=True)
class Services:
    """The parts of a running server.

    access: who may talk to it, decided from the address it really listens on.
    scopes: whose requests may share kept prefixes.
    ollama, inventory: the Ollama daemon, and what it has.
    prompts: where chats are rendered. pace: how fast requests begin that generate. bodies: how much memory bodies take.
    draining: set when a drain or a signal begins to end the server.
    exit: ends the server's main loop; set once, when the drain is done.
    preload: loads the model of `--model`; ended by a drain.
    fault: what made the server end by itself; None as long as all is well. last_resort: called then, before anything else is tried.
    """

    settings: ServeSettings
    host: ModelHost
    catalog: AsyncCatalog
    machine: Machine
    access: AccessRules
    prompts: PromptThread
    ollama: OllamaDaemon
    inventory: Inventory
    pace: Pace = field(default_factory=Pace)
    bodies: BodyRoom = field(default_factory=BodyRoom)
    scopes: KeyScopes = field(default_factory=KeyScopes)
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    exit: asyncio.Event = field(default_factory=asyncio.Event)
    started_at: float = field(default_factory=time.monotonic)
    preload: asyncio.Task[None] | None = None
    fault: BaseException | None = None
    last_resort: Callable[[], None] = field(default=_no_last_resort)
    _drain: asyncio.Task[str | None] | None = None

    def fail(self, error: BaseException) -> None:
        """End the server, since it cannot keep its promises any more. Only the first fault counts."""
        if self.fault is not None:
            return

        self.fault = error
        self.last_resort()
        logger.critical("the server cannot keep its promises any more and ends: %r", error)
        self.draining.set()

        if self.preload is not None:
            self.preload.cancel()

        self.host.fail()
        self.ollama.drain(0.0)
        self.exit.set()

    def begin_drain(self, timeout_s: float | None = None) -> None:
        """As `drain`, for one who does not wait: a signal."""
        self.drain(timeout_s).add_done_callback(_log_failure)

    def drain(self, timeout_s: float | None = None) -> "asyncio.Task[str | None]":
        """Begin to finish and exit, or bound the drain that has begun. The process ends EXIT_DELAY_S after the task is done.

        It ends also when the one who asked has left before.
        """
        # A load that was begun for nobody is not worth waiting for.
        if self.preload is not None:
            self.preload.cancel()

        self.draining.set()
        self.ollama.drain(timeout_s)
        host_drained = self.host.drain(timeout_s)

        if self._drain is None:
            self._drain = asyncio.get_running_loop().create_task(self._all_drained(host_drained))
            self._drain.add_done_callback(lambda _: asyncio.get_running_loop().call_later(EXIT_DELAY_S, self.exit.set))

        return self._drain

    async def _all_drained(self, host_drained: "asyncio.Task[str | None]") -> str | None:
        model_id = await host_drained
        await self.ollama.wait_idle()
        return model_id


def _log_failure(task: "asyncio.Task[str | None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("the drain failed: %s", error)


SERVICES: web.AppKey[Services] = web.AppKey("services", Services)
