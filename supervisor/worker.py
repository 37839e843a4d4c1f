"""One incarnation of a worker: its process, its channel, its state. It never restarts; a recycle makes a new one with a new number.

Lives in the event loop's thread. Whoever makes a Worker must `stop` it and wait for that, on every path.
"""

import asyncio
import logging
import os
import secrets
import signal
from collections.abc import Callable

from ipc.errors import ChannelClosed, ChannelFull, ProtocolError, Unsendable
from ipc.exit_status import describe_exit
from ipc.front_end import ChannelContext, FrontEnd
from ipc.messages import Cancel, Device, FromWorker, Generate, GenerationTask, Loaded
from supervisor.background import Background
from supervisor.child_process import Unkillable
from supervisor.errors import InvalidForModel, SupervisorError, WorkerDied, WorkerOutOfMemory, WorkerUnresponsive
from supervisor.gpu_activity import GpuActivity
from supervisor.gpu_report import GpuDevice
from supervisor.memory_gauge import MemoryGauge
from supervisor.oom_kills import OomWatch, find_own_counter
from supervisor.placement import Placement
from supervisor.progress_judge import Activity, Hung
from supervisor.progress_watch import ProgressWatch
from supervisor.request_stream import RequestStream
from supervisor.settings import ModelRef, SupervisorSettings
from supervisor.spare_worker import SpareWorker
from supervisor.worker_history import WorkerHistory
from supervisor.worker_launch import launch_worker
from supervisor.worker_state import WorkerEvent, WorkerLife, WorkerState
from supervisor.worker_words import WorkerWords

logger = logging.getLogger(__name__)

# How long an exit is held back for words that are still on their way; typically well under a millisecond.
LAST_WORDS_S = 0.1
# How long a process may live on without its connection: a worker that ends by itself closes it a moment before.
DISCONNECTED_S = 5.0


class Worker:
    """A process with one model, from spawn to reaped."""

    def __init__(
        self,
        settings: SupervisorSettings,
        context: ChannelContext,
        background: Background,
        model: ModelRef,
        number: int,
        placement: Placement,
        history: WorkerHistory,
        gauge: MemoryGauge,
        on_crash: Callable[[], None],
        spare: SpareWorker | None = None,
    ) -> None:
        """Spawn the process. Raises OSError when the system refuses, ValueError when a path cannot be used; then nothing is left behind.

        placement: where it is to be loaded. history: is told what happens to the worker. gauge: tells whether its GPU computes.
        on_crash: called when a loaded worker has ended although nobody wanted that, before its request is told.
        spare: a process that may become this worker; see `launch_worker`.
        """
        self.model = model
        self.number = number
        self.placement = placement
        self._is_stop_wanted = False
        self._settings = settings
        self._background = background
        self._history = history
        self._is_fault = True
        self._on_crash = on_crash
        self._life = WorkerLife()
        self._stop_reason: SupervisorError | None = None
        self._gpu_activity = GpuActivity(placement.gpu, gauge, background)
        self._oom = OomWatch(settings.oom_counter or find_own_counter())
        self.exited = asyncio.Event()

        secret = secrets.token_bytes(32)
        path = settings.runtime_dir / f"w{number}-{secrets.token_hex(4)}"
        self._channel = FrontEnd(context, path, secret, number, self._on_message, self._on_fault, self._on_disconnected)

        try:
            self._child, self._lifeline = launch_worker(
                settings,
                model,
                number,
                placement,
                self._channel.endpoint,
                secret,
                history.inherited_fds,
                self._on_exit,
                spare,
            )
        except BaseException:
            self._channel.close()
            raise

        history.spawned(self._child.pid)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._watch = ProgressWatch(
            self._child.pid,
            f"worker {number}",
            settings.watch,
            settings.prefill_chunk,
            self._on_hung,
            is_gpu_busy=self._is_gpu_busy,
        )
        self._words = WorkerWords(
            model.model_id, number, self._child.pid, self._life, self._watch, history, self._on_fault, settings.parallel
        )
        self._watch.begin(Activity.START)
        logger.info("[worker %d] started for '%s', process %d", number, model.model_id, self._child.pid)

    @property
    def state(self) -> WorkerState:
        """For reports, and for decisions of the one that holds the turn."""
        return self._life.state

    @property
    def is_usable(self) -> bool:
        """Whether this worker serves, or will once it is loaded: alive, not ending, its load not failed, its engine sound."""
        is_alive = not self._life.is_ending and self._child.is_running
        return is_alive and self._words.load.error is None and not self._words.is_tainted

    @property
    def loaded(self) -> Loaded | None:
        """What it said when its model was loaded; None before that."""
        return self._words.load.loaded

    @property
    def has_crashed(self) -> bool:
        """Whether it ended although nobody wanted that."""
        return self._life.state is WorkerState.EXITED and not self._is_stop_wanted and self.loaded is not None

    @property
    def gpu(self) -> GpuDevice | None:
        """The device that it uses, or will; None on the CPU."""
        is_on_cpu = self.loaded is not None and self.loaded.device is not Device.CUDA
        return None if is_on_cpu else self.placement.gpu

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self._child.pid

    @property
    def running(self) -> int:
        """How many requests it works on."""
        return self._words.running

    async def wait_loaded(self) -> Loaded:
        """Wait until the model is loaded. May be called again, also after a caller before was cancelled.

        Raises ModelLoadFailed when the worker said why, WorkerDied when it ended without a word, WorkerUnresponsive when we ended it.
        """
        return await self._words.load.wait()

    def begin(self, stream: RequestStream, task: GenerationTask) -> None:
        """Start a generation whose messages go to the stream. Only for a holder of the turn, on a worker that is loaded.

        A worker that cannot be reached is ended, and its end is told through the stream. Raises InvalidForModel when the request cannot be
        put into a message.
        """
        self._words.open_request(stream, self._send_cancel)

        try:
            self._channel.send(Generate.of(stream.request_id, task))
        except Unsendable as error:
            self._words.drop_request(stream)
            raise InvalidForModel(str(error)) from error
        except (ChannelClosed, ChannelFull) as error:
            self._end_unreachable(error)
        else:
            self._oom.note()
            self._history.request_begun(stream.request_id, task)

            # One more request is no sign of life of a worker that has others.
            if self.running == 1:
                self._watch.begin(Activity.REQUEST)

    def _end_unreachable(self, error: ChannelClosed | ChannelFull) -> None:
        # One that is dead already tells a better reason in a moment: how it ended.
        if self._child.is_running:
            self.kill(WorkerDied(f"the worker cannot be reached and was ended: {error}"))

    def _send_cancel(self, request_id: int) -> None:
        try:
            self._channel.send(Cancel(request_id))
        except (ChannelClosed, ChannelFull):
            logger.warning("[worker %d] takes no cancel", self.number)

    def kill(self, reason: SupervisorError, *, is_fault: bool = True) -> None:
        """End the process at once; its open request and its load end with this reason. The end is told by `exited`.

        is_fault: the worker is to blame, which counts against its model.
        """
        if not self._life.is_ending:
            logger.warning("[worker %d] is killed: %s", self.number, reason)
            self._stop_reason = reason
            self._is_fault = is_fault
            self._life.advance(WorkerEvent.ASKED_TO_STOP)
            self._watch.rest()
            self._set_timer(self._settings.kill_wait_s, self._give_up)

        self._child.kill()

    def _give_up(self) -> None:
        """The process does not end (it hangs in the kernel): those who wait are told all the same. `stop` then says that it lives."""
        assert self._stop_reason is not None
        self._tell_end(self._stop_reason)

    async def stop(self) -> None:
        """End the process and wait until it is gone. Bound: stop_grace_s + kill_wait_s, then Unkillable is raised."""
        if self._life.state is WorkerState.EXITED:
            return

        # One that is dead already was not ended by us: its last words count, and so does the crash.
        if self._child.is_running and self._life.state is not WorkerState.STOPPING:
            self._is_stop_wanted = True
            self._is_fault = False
            self._life.advance(WorkerEvent.ASKED_TO_STOP)
            self._watch.rest()

        try:
            await self._child.stop(self._settings.stop_grace_s, self._settings.kill_wait_s)
        except Unkillable as error:
            # It may outlive all others, and so the sockets' context.
            self._channel.close()
            self._tell_end(WorkerUnresponsive(f"the worker of '{self.model.model_id}' cannot be ended: {error}"))
            raise

        await self.exited.wait()

    def _on_message(self, message: FromWorker) -> None:
        self._words.take(message)

    def _on_fault(self, error: ProtocolError) -> None:
        self.kill(WorkerDied(f"the worker broke the protocol and was ended: {error}"))

    def _is_gpu_busy(self) -> bool:
        return self.gpu is not None and self._gpu_activity.is_busy()

    def _on_hung(self, hung: Hung) -> None:
        self.kill(WorkerUnresponsive(hung.text))

    def _on_disconnected(self) -> None:
        # Nothing can come any more: the end of the process is all that is waited for.
        self._watch.rest()

        if self._stop_reason is None:
            error = WorkerDied("the worker closed its connection but did not end, and was ended")
            self._set_timer(DISCONNECTED_S, lambda: self.kill(error))

    def _set_timer(self, after_s: float, act: Callable[[], None]) -> None:
        self._drop_timer()
        self._timer = self._loop.call_later(after_s, act)

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_exit(self, status: int) -> None:
        self._background.start(self._bury(status))

    async def _bury(self, status: int) -> None:
        """Tell the end to all who wait for something, after the last words: a Finished that is on its way counts more than a death."""
        if self._life.state is not WorkerState.STOPPING:
            await self._channel.wait_disconnected(LAST_WORDS_S)
            self._channel.drain()

        self._channel.close()
        self._watch.rest()
        self._drop_timer()
        os.close(self._lifeline)
        was_stopping = self._life.state is WorkerState.STOPPING
        self._life.advance(WorkerEvent.PROCESS_EXITED)
        error = self._stop_reason or self._describe_death(status, is_wanted=was_stopping)

        if not was_stopping and self._words.load.error is None:
            logger.error("[worker %d] ended by itself: %s", self.number, error)

        if self.has_crashed:
            self._on_crash()

        self._history.gone()
        self._tell_end(error)
        self.exited.set()

    def _tell_end(self, error: SupervisorError) -> None:
        is_for_memory = isinstance(error, WorkerOutOfMemory)
        self._history.ended(str(error), is_fault=self._is_fault, is_for_memory=is_for_memory)
        self._words.tell_end(error)

    def _describe_death(self, status: int, *, is_wanted: bool) -> WorkerDied:
        if status == -signal.SIGKILL and not is_wanted and self._oom.has_killed():
            return WorkerOutOfMemory(
                f"the kernel ended the worker of model '{self.model.model_id}', since memory ran out "
                "(SIGKILL, and its count of such ends rose)"
            )

        last_line = self._child.last_line
        words = f"; its last words: {last_line}" if last_line else ""
        return WorkerDied(f"the worker of model '{self.model.model_id}' ended with {describe_exit(status)}{words}")
