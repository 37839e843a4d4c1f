"""One daemon thread for calls into a library that may never return. Its owner lives in the event loop and is never blocked.

A call that is late is given up, not killed (a thread cannot be). As long as it hangs, every further call is refused at once: one hung
thread stays one. When the library comes back after all, the thread serves again. It is a daemon: a hung one does not keep us alive.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_Result = TypeVar("_Result")


class NoAnswer(Exception):
    """The call was not done in time, or was not begun: an earlier one hangs, or the thread is closed."""


class DeadlineThread:
    """Does calls one after the other. Started by the first one.

    deadline_s: longest wait for an answer, the wait for earlier calls included.
    """

    def __init__(self, name: str, deadline_s: float) -> None:
        self._name = name
        self._deadline_s = deadline_s
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended: Future[None] = Future()
        self._is_closed = False
        # Written by the thread: the number of the job that runs. Written by the loop: the number of the job that was given up.
        self._running: int | None = None
        self._given_up: int | None = None

    @property
    def is_started(self) -> bool:
        """Say whether there is a thread at all."""
        return self._thread is not None

    @property
    def is_hung(self) -> bool:
        """Say whether a call that was given up still runs."""
        return self._given_up is not None and self._given_up == self._running

    async def call(self, work: Callable[[], _Result]) -> _Result:
        """Do the work in the thread and return its result or raise its error. Raises NoAnswer, after deadline_s at the latest."""
        if self._is_closed:
            raise NoAnswer(f"{self._name} is closed")

        if self.is_hung:
            raise NoAnswer(f"{self._name} still hangs in an earlier call")

        answer = asyncio.wrap_future(self._submit(work))

        try:
            await asyncio.wait({answer}, timeout=self._deadline_s)

            if not answer.done():
                self._given_up = self._running
                raise NoAnswer(f"{self._name} did not answer within {self._deadline_s:g} s")

            return answer.result()
        finally:
            # Takes a job that has not begun out of the queue; does nothing to one that is done.
            answer.cancel()

    async def close(self) -> None:
        """End the thread. Waits for a call that runs, but no longer than the deadline; a hung thread ends when its call returns."""
        if self._is_closed or self._thread is None:
            self._is_closed = True
            return

        self._is_closed = True
        self._jobs.put(None)

        if self.is_hung:
            return

        ended = asyncio.wrap_future(self._ended)
        await asyncio.wait({ended}, timeout=self._deadline_s)

        if ended.done():
            self._thread.join()
        else:
            ended.cancel()

    def _submit(self, work: Callable[[], _Result]) -> Future[_Result]:
        future: Future[_Result] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return

            try:
                future.set_result(work())
            except BaseException as error:  # handed to the caller, whatever it is: the thread must live on
                future.set_exception(error)

        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()

        self._jobs.put(run)
        return future

    def _serve(self) -> None:
        # In state "running" the future cannot be cancelled by a closer that waits no longer.
        self._ended.set_running_or_notify_cancel()
        number = 0

        while (run := self._jobs.get()) is not None:
            number += 1
            self._running = number
            run()
            self._running = None

        self._ended.set_result(None)
