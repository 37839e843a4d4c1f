"""What the front asked for: requests in order, and which of them it no longer wants.

One inbox per worker; `loop.py` takes requests from it, `generation.py` asks it between native calls.
"""

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
        self._current: int | None = None
        self._is_current_cancelled = False

    def take(self) -> Generate:
        """Return the next request, which is the current one from then on. Waits for ever: an idle worker has nothing else to do."""
        self._current = None

        while not self._waiting:
            message = self._channel.receive(None)

            if message is not None:
                self._sort(message)

        request = self._waiting.popleft()
        self._current = request.request_id
        self._is_current_cancelled = False
        return request

    def is_cancelled(self) -> bool:
        """Take in what has come and say whether the current request was cancelled. Costs a few microseconds."""
        if self._is_front_gone():
            raise ChannelClosed("the front is gone")

        while (message := self._channel.receive(0)) is not None:
            self._sort(message)

        return self._is_current_cancelled

    def _sort(self, message: ToWorker) -> None:
        match message:
            case Generate():
                self._waiting.append(message)
            case Cancel(request_id=request_id):
                self._cancel(request_id)
            case _:
                assert_never(message)

    def _cancel(self, request_id: int) -> None:
        if request_id == self._current:
            self._is_current_cancelled = True
            return

        kept = deque(request for request in self._waiting if request.request_id != request_id)
        is_waiting = len(kept) < len(self._waiting)
        self._waiting = kept

        # An id that is neither: the Cancel crossed the end of its request on the way.
        if is_waiting:
            self._channel.send(cancelled_unbegun(request_id))


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
