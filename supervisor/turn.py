"""The right to use the resident worker, as its user sees it. Made by `ModelHost.turn`; lives as long as its block."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from ipc.messages import GenerationTask, Loaded
from supervisor.errors import SupervisorError
from supervisor.request_stream import RequestStream
from supervisor.worker import Worker

CheckTask: TypeAlias = Callable[[GenerationTask], None]
Reload: TypeAlias = Callable[[], Awaitable[tuple[Worker, Loaded]]]


class Turn:
    """A worker with the model loaded, for one user at a time.

    reload: makes the model resident once more, when the worker has died before it began a request.
    check_task: raises PromptRefused for a task that must not be begun.
    is_reloading: it is just being made resident once more.
    """

    def __init__(self, worker: Worker, loaded: Loaded, reload: Reload, check_task: CheckTask) -> None:
        self._worker = worker
        self._reload = reload
        self._check_task = check_task
        self._cut_error: SupervisorError | None = None
        self.is_reloading = False
        self.loaded = loaded
        self.stream: RequestStream | None = None

    def generate(self, task: GenerationTask) -> RequestStream:
        """Begin a generation. One after another may be begun in a turn, each after the end of the one before.

        A worker that dies before it says a word about the request has not begun it (it may have been dying since the request before); the
        next worker gets it then, once, and the reader of the stream sees nothing of that.

        Raises InvalidForModel when the request cannot be sent, PromptRefused, ServerDraining when the time for running requests is over.
        """

        async def begin_again(stream: RequestStream) -> None:
            self.is_reloading = True

            try:
                self._worker, self.loaded = await self._reload()
            finally:
                self.is_reloading = False

            self._raise_if_cut()
            self._worker.begin(stream, task)

        self._raise_if_cut()
        self._check_task(task)
        stream = RequestStream(begin_again)
        self._worker.begin(stream, task)
        self.stream = stream
        return stream

    def cut(self, error: SupervisorError) -> None:
        """End what runs with this error, and let nothing more begin."""
        self._cut_error = error

        if self.stream is not None:
            self.stream.abort(error)

    def _raise_if_cut(self) -> None:
        if self._cut_error is not None:
            raise self._cut_error
