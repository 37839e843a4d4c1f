"""One request's place among those that wait, from its arrival to its end. Made and changed by `ModelHost` only."""

import asyncio
from dataclasses import dataclass

from supervisor.settings import ModelRef


@dataclass(slots=True)
class Seat:
    """deadline: until when it may wait for the turn, by the loop's clock; None for ever. tokens: of prompt and answer, estimated.

    has_turn: it has the turn and must hand it on.
    lock_deadline: until when it waits for another server's load; None as long as it has met none.
    """

    model: ModelRef
    deadline: float | None
    tokens: int = 0
    has_turn: bool = False
    lock_deadline: float | None = None

    def patience_s(self) -> float | None:
        """Return for how long it may still wait; None for ever."""
        return None if self.deadline is None else max(self.deadline - asyncio.get_running_loop().time(), 0.0)
