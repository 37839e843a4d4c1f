"""What happens to one worker, told to those who learn from it: restart policy, memory for poison prompts, tenure, log of events.

Called by the `Worker`, which tells each thing once and in order. Nothing here decides, waits or blocks.
"""

from collections.abc import Callable

from ipc.messages import FailCode, Failed, Finished, FinishReason, GenerationTask, Loaded, LoadFailCode, Rejected
from supervisor.event_log import EventLog
from supervisor.poison_prompts import PoisonPrompts
from supervisor.restart_policy import RestartPolicy
from supervisor.tenure import Tenure


class WorkerHistory:
    """The life of one worker of a model whose load was begun (`RestartPolicy.begin_load`). number: of the worker.

    on_loaded: called when its model is loaded.
    """

    def __init__(
        self,
        model_id: str,
        number: int,
        policy: RestartPolicy,
        poison: PoisonPrompts,
        tenure: Tenure,
        events: EventLog,
        on_loaded: Callable[[], None],
    ) -> None:
        self._on_loaded = on_loaded
        self._model_id = model_id
        self._number = number
        self._events = events
        self._policy = policy
        self._poison = poison
        self._tenure = tenure
        self._is_loaded = False
        self._is_over = False
        self._tasks: dict[int, GenerationTask] = {}

    @property
    def inherited_fds(self) -> tuple[int, ...]:
        """See `Tenure`."""
        return self._tenure.inherited_fds

    def spawned(self, worker_pid: int) -> None:
        """The process is there."""
        self._tenure.spawned(worker_pid)

    def loaded(self, loaded: Loaded, worker_pid: int) -> None:
        """The model is loaded."""
        self._events.write("loaded", worker=self._number, parallel=loaded.parallel)
        self._is_loaded = True
        self._tenure.loaded(loaded, worker_pid)
        self._policy.loaded(self._model_id)
        self._on_loaded()

    def load_failed(self, code: LoadFailCode, message: str) -> None:
        """The worker said that it cannot load the model, and why. Its end that follows is no further news."""
        self._events.write("load_failed", worker=self._number, code=code)
        self._is_over = True
        self._policy.load_failed(self._model_id, code, message)

    def request_begun(self, request_id: int, task: GenerationTask) -> None:
        """The worker was given a request, perhaps beside others."""
        self._tasks[request_id] = task
        self._events.write("request_begun", worker=self._number, request=request_id)

    def request_ended(self, message: Finished | Rejected | Failed) -> None:
        """The worker said how its request ended."""
        task = self._tasks.pop(message.request_id, None)
        end = _end_of(message)
        self._events.write("request_ended", worker=self._number, request=message.request_id, end=end)

        match message:
            case Failed(code=FailCode.ENGINE_ERROR, is_fatal=True, message=text):
                self._is_over = True
                self._policy.died(self._model_id, text)
            case Failed() | Finished(reason=FinishReason.CANCELLED):
                pass
            case Finished() | Rejected():
                self._policy.request_completed(self._model_id)

                if task is not None:
                    self._poison.completed(self._model_id, task.identity())

    def ended(self, message: str, *, is_fault: bool, is_for_memory: bool = False) -> None:
        """The process is gone, or cannot be ended. is_fault: by itself, or by us because it hung or broke the protocol.

        is_for_memory: by the kernel, which may have had others in mind too: no prompt is blamed for that.
        """
        self._events.write("ended", worker=self._number, is_fault=is_fault, reason=message)

        if self._is_over:
            return

        self._is_over = True

        if not is_fault:
            self._policy.stopped(self._model_id)
        elif not self._is_loaded:
            self._policy.load_died(self._model_id, message)
        else:
            self._policy.died(self._model_id, message)

            # Among several nobody can tell which was to blame, and refusing all of them would punish the others.
            if len(self._tasks) == 1 and not is_for_memory:
                (task,) = self._tasks.values()
                self._poison.died_under(self._model_id, task.identity())

    def gone(self) -> None:
        """The process is reaped: it has nothing of the machine any more."""
        self._events.write("gone", worker=self._number)
        self._tenure.gone()


def _end_of(message: Finished | Rejected | Failed) -> str:
    match message:
        case Finished(reason=reason):
            return f"finished:{reason}"
        case Rejected(code=code):
            return f"rejected:{code}"
        case Failed(code=failure):
            return f"failed:{failure}"
