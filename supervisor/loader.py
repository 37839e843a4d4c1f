"""Starts workers, if what happened to those before allows it. Used by the host, inside a turn; in the event loop's thread."""

from collections.abc import Sequence

from ipc.front_end import ChannelContext
from ipc.messages import LoadFailCode
from supervisor.background import Background
from supervisor.errors import ModelLoadFailed, PromptRefused
from supervisor.folder_mark import folder_mark
from supervisor.load_permit import LoadPermit, take_lock
from supervisor.poison_prompts import PoisonPrompts
from supervisor.restart_policy import Answer, RestartPolicy
from supervisor.seat import Seat
from supervisor.settings import ModelRef, SupervisorSettings
from supervisor.tenure import Tenure
from supervisor.worker import Worker
from supervisor.worker_history import WorkerHistory


class Loader:
    """Makes one worker after the other, each with the next number.

    generation: number of the newest worker, 0 before the first. restarts: workers that ended although nobody wanted that.
    """

    def __init__(self, settings: SupervisorSettings, background: Background) -> None:
        self._settings = settings
        self._background = background
        self._channels = ChannelContext()
        self._policy = RestartPolicy(settings.restart)
        self._poison = PoisonPrompts(settings.poison)
        self.generation = 0
        self.restarts = 0

    def look(self, seat: Seat) -> Answer:
        """Say whether a load of its model could begin now; see `RestartPolicy.look`."""
        return self._policy.look(seat.model.model_id, lambda: folder_mark(seat.model.path), seat.patience_s())

    def begin(self, seat: Seat) -> Answer:
        """Ask for the start of a worker. Allowed must be followed by `spawn`; see `RestartPolicy.begin_load`."""
        return self._policy.begin_load(seat.model.model_id, lambda: folder_mark(seat.model.path), seat.patience_s())

    async def permit(self, model: ModelRef) -> LoadPermit:
        """Wait for the right to load, at most load_timeout_s. Raises InsufficientResources, ModelLoadFailed."""
        return LoadPermit(await take_lock(self._settings.load_lock, model.model_id))

    def spawn(self, model: ModelRef, permit: LoadPermit) -> Worker:
        """Start the worker, which owns the permit from now on. Raises ModelLoadFailed when the system refuses."""
        self.generation += 1
        tenure = Tenure(self._settings.load_lock, model.model_id, permit)
        history = WorkerHistory(model.model_id, self._policy, self._poison, tenure)

        try:
            worker = Worker(
                self._settings, self._channels, self._background, model, self.generation, history, self._count_crash
            )
        except (OSError, ValueError) as error:
            reason = str(error.strerror if isinstance(error, OSError) and error.strerror else error)
            history.load_failed(LoadFailCode.OTHER, reason)
            raise ModelLoadFailed(f"no worker can be started for '{model.model_id}': {reason}") from error

        permit.hand_over()
        return worker

    def _count_crash(self) -> None:
        self.restarts += 1

    def check_prompt(self, model_id: str, prompt: Sequence[str]) -> None:
        """Raise PromptRefused for a prompt under which workers of this model ended."""
        refused_s = self._poison.refused_for_s(model_id, prompt)

        if refused_s is not None:
            raise PromptRefused(
                f"workers of model '{model_id}' ended under this prompt {self._settings.poison.deaths_to_refuse} times; "
                f"it is refused for the next {refused_s:.0f} s"
            )

    def close(self) -> None:
        """End the channels, after all workers."""
        self._channels.close()
