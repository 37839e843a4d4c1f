"""One worker process that was started ahead: it imports its libraries and waits for a launch spec. It has no model and no channel.

Made by `SpareKeeper`, used up by `launch_worker`. In the event loop's thread; blocks for the few milliseconds of a spawn.
"""

import os
from collections.abc import Callable
from typing import TypeAlias

from ipc.launch_spec import write_launch_frame
from supervisor.settings import SupervisorSettings
from supervisor.worker_process import start_process
from supervisor.worker_record import WorkerRecord

OnEnd: TypeAlias = Callable[["SpareWorker", int], None]


class SpareWorker:
    """From its spawn until it is given a launch spec, or reaped.

    is_given: it was given a spec, and is a worker since. environment: what it was started with, and will have for good.
    """

    def __init__(self, settings: SupervisorSettings, environment: dict[str, str], on_end: OnEnd) -> None:
        """Spawn. Raises OSError when the system refuses, ValueError when a variable is no text; then nothing is left behind.

        on_end: told the exit status when it was reaped without having been given a spec.
        """
        state_dir = settings.load_lock.state_dir
        self.is_given = False
        self.environment = environment
        self._on_end = on_end
        self._record = WorkerRecord.begin(state_dir) if state_dir is not None else None
        lock_fd = self._record.lock_fd if self._record is not None else None

        try:
            self.child, self.lifeline = start_process(
                # The parent is told here, as it must be known before the spec comes. It is no secret.
                (*settings.worker_command, "--parent-pid", str(os.getpid())),
                environment,
                () if lock_fd is None else (lock_fd,),
                "spare worker",
                self._reaped,
                frame=b"",
            )
        except BaseException:
            self._withdraw()
            raise

    def take_record(self) -> WorkerRecord | None:
        """Give away the record whose descriptor the process has inherited, to be told of the worker that it becomes."""
        record, self._record = self._record, None
        return record

    def give(self, frame: bytes, label: str, on_exit: Callable[[int], None]) -> bool:
        """Let it become a worker, whose end is told to on_exit from now on. False when it cannot, since it has ended."""
        if not self.child.is_running:
            return False

        try:
            write_launch_frame(self.lifeline, frame)
        except OSError:
            # It ended just now, or stopped reading.
            return False

        self.is_given = True
        self.child.hand_over(label, on_exit)
        return True

    def _reaped(self, status: int) -> None:
        os.close(self.lifeline)
        self._withdraw()
        self._on_end(self, status)

    def _withdraw(self) -> None:
        if self._record is not None:
            self._record.withdraw()
