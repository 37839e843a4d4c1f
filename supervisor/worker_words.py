"""What one worker says, and what each word means: for its state, its load, its open requests, the watch, and those who learn from it.

Made and asked by `Worker`, in the event loop's thread. Ends no process: a word that has no place is told to the worker, which does.
"""

import logging
import time
from collections.abc import Callable
from typing import assert_never

from ipc.errors import ProtocolError
from ipc.messages import (
    Delta,
    Failed,
    Finished,
    FromWorker,
    Hello,
    Loaded,
    LoadFailCode,
    LoadFailed,
    Progress,
    Rejected,
    RequestMessage,
    Started,
)
from supervisor.errors import EngineOutOfMemory, ModelLoadFailed, SupervisorError
from supervisor.load_outcome import LoadOutcome
from supervisor.progress_watch import ProgressWatch
from supervisor.request_stream import RequestStream
from supervisor.worker_history import WorkerHistory
from supervisor.worker_state import InvalidTransition, WorkerEvent, WorkerLife

logger = logging.getLogger(__name__)

# A tuple that is there: a union would be made anew for each token.
_ENDS = (Finished, Rejected, Failed)


class WorkerWords:
    """Of one worker.

    pid: of its process. parallel: how many requests the operator wants it to work on.
    on_fault: called for a word that has no place; the worker is ended then.
    is_tainted: its engine said that it is broken for good.
    """

    def __init__(
        self,
        model_id: str,
        number: int,
        pid: int,
        life: WorkerLife,
        watch: ProgressWatch,
        history: WorkerHistory,
        on_fault: Callable[[ProtocolError], None],
        parallel: int,
    ) -> None:
        self._parallel = parallel
        self._model_id = model_id
        self._number = number
        self._pid = pid
        self._life = life
        self._watch = watch
        self._history = history
        self._on_fault = on_fault
        self._request_id = 0
        self._streams: dict[int, RequestStream] = {}
        self._started_at = time.monotonic()
        self.load = LoadOutcome()
        self.is_tainted = False

    @property
    def running(self) -> int:
        """How many requests are open."""
        return len(self._streams)

    def open_request(self, stream: RequestStream, send_cancel: Callable[[int], None]) -> None:
        """From now on there is one more request, whose messages go to the stream. Raises InvalidTransition."""
        self._life.advance(WorkerEvent.STARTED_REQUEST)
        self._request_id += 1
        stream.bind(self._request_id, send_cancel)
        self._streams[self._request_id] = stream

    def drop_request(self, stream: RequestStream) -> None:
        """This request was not sent after all."""
        self._close_request(stream.request_id)

    def _close_request(self, request_id: int) -> None:
        del self._streams[request_id]

        if not self._streams:
            self._life.advance(WorkerEvent.FINISHED_REQUEST)

    def tell_end(self, error: SupervisorError) -> None:
        """Nothing more will be said: what is open ends with this error."""
        self.load.fail(error)

        streams, self._streams = self._streams, {}

        for stream in streams.values():
            stream.fail(error)

    def take(self, message: FromWorker) -> None:
        """Take in a message, in the order in which they were sent."""
        # The words of a worker that is being stopped are no events any more; its end is.
        if self._life.is_ending:
            return

        try:
            self._act_on(message)
        except InvalidTransition as error:
            self._on_fault(ProtocolError(f"a {type(message).__name__} that has no place: {error}"))

    def _act_on(self, message: FromWorker) -> None:
        match message:
            case Started() | Delta() | Finished() | Rejected() | Failed():
                self._on_request_message(message)
            case Progress():
                self._watch.on_message(message)
            case Hello():
                self._life.advance(WorkerEvent.SAID_HELLO)
                self._watch.on_message(message)
            case Loaded():
                self._on_loaded(message)
            case LoadFailed():
                self._on_load_failed(message)
            case _:
                assert_never(message)

    def _on_loaded(self, loaded: Loaded) -> None:
        self._life.advance(WorkerEvent.LOADED)
        self._watch.on_message(loaded)
        self._history.loaded(loaded, self._pid)
        self.load.succeed(loaded)
        seconds = time.monotonic() - self._started_at
        logger.info("[worker %d] loaded '%s' on %s in %.2f s", self._number, self._model_id, loaded.device, seconds)

        if loaded.parallel < self._parallel:
            logger.info(
                "[worker %d] '%s' serves one request at a time: it was not made for several",
                self._number,
                self._model_id,
            )

        if loaded.fallback_reason is not None:
            logger.warning("[worker %d] runs on the CPU, not on CUDA: %s", self._number, loaded.fallback_reason)

    def _on_load_failed(self, failed: LoadFailed) -> None:
        if self.load.is_settled:
            self._on_fault(ProtocolError("a LoadFailed that has no place: the load has ended"))
            return

        self._watch.on_message(failed)
        logger.error("[worker %d] cannot load '%s' (%s): %s", self._number, self._model_id, failed.code, failed.message)
        self._history.load_failed(failed.code, failed.message)
        fault = EngineOutOfMemory if failed.code is LoadFailCode.OUT_OF_MEMORY else ModelLoadFailed
        self.load.fail(fault(f"model '{self._model_id}' cannot be loaded: {failed.message}"))

    def _on_request_message(self, message: RequestMessage) -> None:
        stream = self._streams.get(message.request_id)

        if stream is None:
            self._on_stray(message)
            return

        if isinstance(message, _ENDS):
            self.is_tainted = self.is_tainted or (isinstance(message, Failed) and message.is_fatal)
            self._close_request(message.request_id)
            self._history.request_ended(message)

        self._watch.on_message(message, is_idle=not self._streams)
        stream.take(message)

    def _on_stray(self, message: RequestMessage) -> None:
        """A word about a request that has ended harms nobody; one that never was means a worker that cannot be trusted."""
        name = type(message).__name__

        if message.request_id > self._request_id:
            self._on_fault(ProtocolError(f"a {name} for request {message.request_id}, which does not exist"))
        else:
            logger.warning(
                "[worker %d] sent a %s for the ended request %d; dropped", self._number, name, message.request_id
            )
