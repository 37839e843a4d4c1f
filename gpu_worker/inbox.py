"""What the front asked for: requests in order, and which of them it no longer wants.

One inbox per worker; `loop.py` looks into it between the steps of the batch.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Protocol, assert_never

from ipc.errors import ChannelClosed
from ipc.messages import Cancel, Finished, FinishReason, FromWorker, Generate, ToWorker


class Channel(Protocol):
    """The worker's end of the channel."""

    def send(self, message: FromWorker) -> None:
        """Raises ChannelClosed when the front is gone."""

    def receive(self, timeout_ms: int | None) -> ToWorker | None:
        """None waits for ever, 0 looks and returns. Raises ChannelClosed or ProtocolError."""


class Inbox:
    """is_front_gone: looked at whenever the channel is only looked at, since a channel notices the front's end only while it waits."""

    def __init__(self, channel: Channel, is_front_gone: Callable[[], bool]) -> None:
        self._channel = channel
        self._is_front_gone = is_front_gone
        self._waiting: deque[Generate] = deque()
        self._cancelled: list[int] = []

    @property
    def is_empty(self) -> bool:
        """Whether no request waits to be begun."""
        return not self._waiting

    def wait(self, tidy_up: Callable[[], float | None] = lambda: None) -> None:
        """Wait until a request is there, for ever.

        tidy_up: called before each wait; returns in how many seconds it wants to be called again, None for not at all.
        """
        while not self._waiting:
            due_s = tidy_up()
            message = self._channel.receive(None if due_s is None else math.ceil(due_s * 1000))

            if message is not None:
                self._sort(message)

        # A cancel of what had ended before crossed that end on its way; the next request may have any number.
        self._cancelled.clear()

    def look(self) -> None:
        """Take in what has come. Costs a few microseconds."""
        if self._is_front_gone():
            raise ChannelClosed("the front is gone")

        while (message := self._channel.receive(0)) is not None:
            self._sort(message)

    def take(self) -> Generate:
        """Return the next request, which is begun from then on."""
        return self._waiting.popleft()

    def take_cancelled(self) -> list[int]:
        """Return the begun requests that the front no longer wants; each is told once. Some of them may have ended meanwhile."""
        cancelled, self._cancelled = self._cancelled, []
        return cancelled

    def _sort(self, message: ToWorker) -> None:
        match message:
            case Generate():
                self._waiting.append(message)
            case Cancel(request_id=request_id):
                self._cancel(request_id)
            case _:
                assert_never(message)

    def _cancel(self, request_id: int) -> None:
        kept = deque(request for request in self._waiting if request.request_id != request_id)
        is_waiting = len(kept) < len(self._waiting)
        self._waiting = kept

        if is_waiting:
            self._channel.send(cancelled_unbegun(request_id))
        else:
            self._cancelled.append(request_id)


def cancelled_unbegun(request_id: int) -> Finished:
    """The end of a request that was cancelled before its turn came."""
    return Finished(
        request_id=request_id,
        reason=FinishReason.CANCELLED,
        prompt_tokens=0,
        completion_tokens=0,
        cached_tokens=0,
        ttft_sec=0.0,
        decode_tok_per_sec=0.0,
    )
