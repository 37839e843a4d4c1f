"""The worker's life after loading: take requests, let the batch step, tell what it made, for ever. Runs in the worker's only thread.

Between two steps it looks whether the front still wants the answers; that is all the concurrency there is. Called by `worker.py`.
"""

import logging
from collections.abc import Callable
from typing import NoReturn

from gpu_worker.batch import Batch, Event
from gpu_worker.engine_port import Engine
from gpu_worker.errors import EngineFault, RequestFault
from gpu_worker.fault_text import engine_fault
from gpu_worker.generation import Generation, GenerationSettings
from gpu_worker.inbox import Channel, Inbox
from ipc.errors import IpcError
from ipc.messages import Failed, Finished, FinishReason, Generate, Rejected, Terminal

logger = logging.getLogger(__name__)


class Loop:
    """Takes requests and ends each with exactly one terminal message.

    is_front_gone: tells at any time whether the front has ended.
    """

    def __init__(
        self,
        channel: Channel,
        engine: Engine,
        batch: Batch,
        settings: GenerationSettings,
        is_front_gone: Callable[[], bool],
    ) -> None:
        self._channel = channel
        self._engine = engine
        self._batch = batch
        self._settings = settings
        self._inbox = Inbox(channel, is_front_gone)
        self._running: dict[int, Generation] = {}
        self._has_just_failed = False

    def run(self) -> NoReturn:
        """Raises ChannelClosed when the front is gone, ProtocolError when it sent what is no message."""
        try:
            while True:
                self._round()
        finally:
            for number in self._running:
                self._batch.leave(number)

    def _round(self) -> None:
        if not self._running and self._inbox.is_empty:
            self._inbox.wait(self._batch.forget_expired)
        else:
            self._inbox.look()

        for number in self._inbox.take_cancelled():
            self._finish(number, FinishReason.CANCELLED)

        half_begun = next((generation for generation in self._running.values() if not generation.has_joined), None)

        # After each of these look again: what is begun may have been cancelled, and others may want to join.
        if half_begun is not None:
            self._begin(half_begun)
        elif not self._inbox.is_empty and len(self._running) < self._batch.capacity:
            self._begin(self._taken(self._inbox.take()))
        elif self._running:
            self._step()

    def _taken(self, request: Generate) -> Generation:
        generation = Generation(request, self._engine, self._batch, self._channel, self._settings)
        self._running[request.request_id] = generation
        return generation

    def _begin(self, generation: Generation) -> None:
        number = generation.request.request_id

        try:
            generation.begin()
        except IpcError:
            raise
        except Exception as error:  # nothing that a request holds may end the worker
            self._end(self._failed(number, error))

    def _step(self) -> None:
        try:
            events = self._batch.step()
        except Exception as error:  # the engine's, or our own; either way all of them have lost their work
            for number in list(self._running):
                self._end(self._failed(number, error))

            return

        for event in events:
            self._deliver(event)

    def _deliver(self, event: Event) -> None:
        generation = self._running.get(event.number)

        if generation is None:
            return

        try:
            reason = generation.take(event)
        except IpcError:
            raise
        except Exception as error:  # nothing that a request holds may end the worker
            self._end(self._failed(event.number, error))
        else:
            if reason is not None:
                self._finish(event.number, reason)

    def _finish(self, number: int, reason: FinishReason) -> None:
        generation = self._running.get(number)

        # A Cancel that crossed the end of its request on the way.
        if generation is None:
            return

        try:
            finished = generation.finish(reason)
        except IpcError:
            raise
        except Exception as error:  # nothing that a request holds may end the worker
            self._end(self._failed(number, error))
            return

        if reason is FinishReason.LOOP:
            logger.warning("[request %d] stopped in a loop after %d tokens", number, finished.completion_tokens)

        self._has_just_failed = False
        self._end(finished)

    def _end(self, terminal: Terminal) -> None:
        """The one place where a request ends."""
        del self._running[terminal.request_id]
        self._batch.leave(terminal.request_id, is_reusable=isinstance(terminal, Finished))
        self._channel.send(terminal)

    def _failed(self, number: int, error: Exception) -> Failed | Rejected:
        if isinstance(error, RequestFault):
            return Rejected(request_id=number, code=error.code, message=str(error), field=error.field)

        if isinstance(error, EngineFault):
            fault = error
        else:
            logger.error("[request %d] broke", number, exc_info=error)
            fault = engine_fault(error)

        # An engine that fails twice in a row has something broken that outlives a request.
        is_fatal = fault.is_fatal or self._has_just_failed
        self._has_just_failed = True
        logger.error("[request %d] failed: %s", number, fault)
        return Failed(request_id=number, code=fault.code, message=str(fault), is_fatal=is_fatal)
