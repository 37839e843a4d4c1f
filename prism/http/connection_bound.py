"""How many connections may be open, and what becomes of those beyond.

Each connection takes a `Place` when it is accepted and frees it when it is gone. Past the bound there are a few places more, for
connections that are told `server_busy` or asked how the server is: someone has to be able to look at a crowded server. When these are
taken too, no connection is accepted until a place is free; the kernel keeps those who come, so they wait a moment and are not sent away
without a word.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Of the descriptors that the process may have: for starting a worker, the lock of a load and files, beside those that are always open.
OWN_DESCRIPTORS = 64
# Places for connections beyond the bound. Each is held for seconds at most.
CROWDED_PLACES = 32
# More than these would cost much memory, and nobody asked for them.
MOST_BY_ITSELF = 4096
LEAST = 8


def most_connections(wanted: int, descriptor_limit: int) -> int:
    """Return how many connections may be open at once: `wanted`, or a number that suits where that is 0.

    descriptor_limit: how many files the process may have open; a part of them is kept for other uses.
    """
    possible = max(descriptor_limit - OWN_DESCRIPTORS - CROWDED_PLACES, LEAST)
    return min(wanted or MOST_BY_ITSELF, possible)


class Place:
    """The right to be open, of one connection."""

    def __init__(self, bound: "ConnectionBound", *, is_crowded: bool) -> None:
        self._bound: ConnectionBound | None = bound
        self.is_crowded = is_crowded

    def free(self) -> None:
        """Give it back. Harmless when that was done before."""
        bound, self._bound = self._bound, None

        if bound is not None:
            bound.open_connections -= 1
            bound.on_free()


class ConnectionBound:
    """Counts the open connections.

    most: those that are served. on_free: called when a place becomes free.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.on_free: Callable[[], None] = _do_nothing
        self.open_connections = 0

    @property
    def is_full(self) -> bool:
        """Whether not even a crowded place is left."""
        return self.open_connections >= self.most + CROWDED_PLACES

    def take(self, *, is_low: bool = False) -> Place:
        """Take a place. Never called when `is_full`. is_low: something else is short, so the place is a crowded one."""
        self.open_connections += 1
        return Place(self, is_crowded=is_low or self.open_connections > self.most)


def _do_nothing() -> None:
    """Nobody waits for a place."""
