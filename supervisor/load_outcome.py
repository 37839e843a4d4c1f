"""How the load of one worker ended: settled once, by the worker's word or by its end. In the event loop's thread."""

import asyncio

from ipc.messages import Loaded
from supervisor.errors import SupervisorError


class LoadOutcome:
    """Nothing yet, then for ever a `Loaded` or an error."""

    def __init__(self) -> None:
        self.loaded: Loaded | None = None
        self.error: SupervisorError | None = None
        self._settled = asyncio.Event()

    @property
    def is_settled(self) -> bool:
        """Whether the load has ended."""
        return self._settled.is_set()

    async def wait(self) -> Loaded:
        """Wait until it is settled. Raises the error. May be called again, also after a caller before was cancelled."""
        await self._settled.wait()

        if self.error is not None:
            raise self.error

        assert self.loaded is not None
        return self.loaded

    def succeed(self, loaded: Loaded) -> None:
        """The model is loaded. Called once, on what is not settled."""
        self.loaded = loaded
        self._settled.set()

    def fail(self, error: SupervisorError) -> None:
        """The load will never end well. Without effect once it is settled."""
        if not self.is_settled:
            self.error = error
            self._settled.set()
