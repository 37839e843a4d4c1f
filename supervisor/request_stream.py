"""One request as its reader sees it: the worker's messages in order, then exactly one end.

Ends come from two sides: the worker's terminal message, or the supervisor's word that the worker is gone. Both go through `_end`,
which works once; so "exactly one" is a property of this class and not of its callers.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias, assert_never

from ipc.messages import Delta, FailCode, Failed, Finished, RejectCode, Rejected, RequestMessage, Started
from supervisor.errors import (
    ContextLengthExceeded,
    EngineFailed,
    EngineOutOfMemory,
    GuidanceRefused,
    GuidanceUnsupported,
    ImageRefused,
    InvalidForModel,
    RequestFault,
    SupervisorError,
    WorkerDied,
)
from supervisor.mailbox import Mailbox

logger = logging.getLogger(__name__)

Answer: TypeAlias = Started | Delta | Finished

_REJECTIONS: dict[RejectCode, type[RequestFault]] = {
    RejectCode.CONTEXT_LENGTH_EXCEEDED: ContextLengthExceeded,
    RejectCode.GUIDANCE_REFUSED: GuidanceRefused,
    RejectCode.GUIDANCE_UNSUPPORTED: GuidanceUnsupported,
}


class RequestStream:
    """Made by `Turn`, fed by the `Worker` that it is bound to, read by one coroutine.

    begin_again: binds the stream to another worker. Awaited by the reader, once, instead of the news that the worker died before it said a
        word about this request.
    """

    def __init__(self, begin_again: Callable[["RequestStream"], Awaitable[None]]) -> None:
        self._begin_again: Callable[[RequestStream], Awaitable[None]] | None = begin_again
        self._mailbox: Mailbox[Answer | SupervisorError] = Mailbox()
        self._is_read_to_end = False
        self.ended = asyncio.Event()

    def bind(self, request_id: int, send_cancel: Callable[[int], None]) -> None:
        """Called by the worker that works on this request from now on. send_cancel: tells it to stop."""
        self.request_id = request_id
        self._send_cancel = send_cancel
        self.ended.clear()

    async def receive(self) -> Answer:
        """Return the next message. Raises the SupervisorError that ended the request; never called again after the end."""
        item = await self._mailbox.get()

        if isinstance(item, WorkerDied) and self._begin_again is not None:
            item = await self._receive_from_another(self._begin_again, item)

        return self._unwrap(item)

    async def _receive_from_another(
        self, begin_again: Callable[["RequestStream"], Awaitable[None]], death: WorkerDied
    ) -> Answer | SupervisorError:
        logger.warning("a request that was not begun goes to the next worker: %s", death)
        self._begin_again = None

        try:
            await begin_again(self)
        except SupervisorError as error:
            return error

        return await self._mailbox.get()

    def receive_ready(self) -> Answer | None:
        """Return the next message if it is there already. Raises like `receive`."""
        if self._begin_again is not None:
            # Nothing has come but perhaps an end, and what becomes of that takes time.
            return None

        item = self._mailbox.get_ready()
        return None if item is None else self._unwrap(item)

    async def __aiter__(self) -> AsyncIterator[Answer]:
        """Iterate up to and including Finished."""
        while not self._is_read_to_end:
            yield await self.receive()

    def _unwrap(self, item: Answer | SupervisorError) -> Answer:
        if isinstance(item, SupervisorError):
            self._is_read_to_end = True
            raise item

        if isinstance(item, Finished):
            self._is_read_to_end = True

        return item

    def cancel(self) -> None:
        """Ask the worker to stop. Harmless when the request has ended or the worker is gone."""
        if not self.ended.is_set():
            self._send_cancel(self.request_id)

    def abort(self, error: SupervisorError) -> None:
        """End the request for its reader with this error, and tell the worker to stop. `ended` is set when the worker has."""
        if not self.ended.is_set():
            self._mailbox.put(error)
            self._send_cancel(self.request_id)

    def take(self, message: RequestMessage) -> None:
        """Called by the worker's owner for each message of this request. Messages after the end are dropped."""
        if self.ended.is_set():
            return

        self._begin_again = None

        match message:
            case Started() | Delta():
                self._mailbox.put(message)
            case Finished():
                self._end(message)
            case Rejected(code=RejectCode.IMAGE_REFUSED, message=text, field=field):
                self._end(ImageRefused(text, field))
            case Rejected(code=code, message=text):
                self._end(_REJECTIONS.get(code, InvalidForModel)(text))
            case Failed(code=code, message=text):
                self._end(EngineOutOfMemory(text) if code is FailCode.OUT_OF_MEMORY else EngineFailed(text))
            case _:
                assert_never(message)

    def fail(self, error: SupervisorError) -> None:
        """Called by the worker's owner when the worker is gone. Without effect after the end."""
        if not self.ended.is_set():
            self._end(error)

    def _end(self, last: Finished | SupervisorError) -> None:
        self._mailbox.put(last)
        self.ended.set()
