"""The right to load a model, from the budget check until the worker says that it is loaded.

Made by the loader, in the event loop's thread.
"""

from types import TracebackType
from typing import Self

from supervisor.errors import InsufficientResources, ModelLoadFailed
from supervisor.holder import find_holder
from supervisor.load_lock import HeldLoadLock, LoadLock, LockUnavailable
from supervisor.placement import Placement
from supervisor.settings import LoadLockSettings


class LoadPermit:
    """The lock, or nothing where there is none to take, and the place. As a context it lets go, unless a worker has taken it over."""

    def __init__(self, lock: HeldLoadLock | None, placement: Placement) -> None:
        self.placement = placement
        self._lock = lock
        self._is_handed_over = False

    def hand_over(self) -> None:
        """Leave it to the worker's tenure to let go."""
        self._is_handed_over = True

    def release(self) -> None:
        """Let go. May be called again."""
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        """Give the permit to the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Let go, unless it was handed over."""
        if not self._is_handed_over:
            self.release()


async def take_lock(lock: LoadLock, model_id: str) -> HeldLoadLock:
    """Take the load lock if it is free. Raises LoadLockBusy when another process has it, ModelLoadFailed when the folder allows no lock."""
    try:
        return await lock.acquire(model_id, 0)
    except LockUnavailable as error:
        raise ModelLoadFailed(f"model '{model_id}' cannot be loaded: {error}") from error


def lock_refusal(settings: LoadLockSettings, model_id: str) -> InsufficientResources:
    """Return what is told to one who waited too long for another server's load."""
    holder = find_holder(settings.state_dir) if settings.state_dir is not None else None
    return InsufficientResources(
        f"model '{model_id}' cannot be loaded now: another process kept the load lock in {settings.state_dir} "
        f"for {settings.timeout_s:g} s (PRISM_LOAD_TIMEOUT)",
        holder,
    )
