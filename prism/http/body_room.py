"""How much of the bodies of all requests together may be in memory. Made with the server, asked by `prism.http.body`, freed by the guard.

One body is bounded, and so is the number of connections, but their product would be forty gigabytes.
"""

from aiohttp import web

from prism.api.refusals import too_many_bodies

MAX_ALL_BODIES_BYTES = 256 * 1024 * 1024
# Of each body so much needs no room: ordinary requests are not kept out by a few clients that send large bodies slowly.
FREE_BYTES = 64 * 1024


class BodyRoom:
    """Counts the bytes of bodies from their arrival until their requests are over: what was made of them is as large."""

    def __init__(self) -> None:
        # By the identity of requests that run: each is freed before it is gone.
        self._held: dict[int, int] = {}
        self.held_bytes = 0

    def hold(self, request: web.Request, size: int) -> None:
        """Note that so much of the body has come. Raises ApiError (503) when there is no room for it."""
        held = self._held.get(id(request), 0)
        more = max(size - FREE_BYTES - held, 0)

        if self.held_bytes + more > MAX_ALL_BODIES_BYTES:
            raise too_many_bodies()

        self._held[id(request)] = held + more
        self.held_bytes += more

    def free(self, request: web.Request) -> None:
        """The request is over."""
        self.held_bytes -= self._held.pop(id(request), 0)
