"""The right to load a model, from the budget check until the worker says that it is loaded.

Made by the loader, in the event loop's thread.
"""

from types import TracebackType
from typing import Self

from supervisor.errors import InsufficientResources, ModelLoadFailed
from supervisor.holder import find_holder
from supervisor.load_lock import HeldLoadLock, LoadLock, LoadLockBusy, LockUnavailable
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


async def take_lock(settings: LoadLockSettings, model_id: str) -> HeldLoadLock | None:
    """Wait for the load lock; None when there is none to take.

    Raises InsufficientResources with the holder when another process kept it, ModelLoadFailed when the folder allows no lock.
    """
    if settings.state_dir is None or not settings.is_on:
        return None

    try:
        return await LoadLock(settings.state_dir).acquire(model_id, settings.timeout_s)
    except LoadLockBusy as error:
        raise InsufficientResources(
            f"model '{model_id}' cannot be loaded now: {error}", find_holder(settings.state_dir)
        ) from error
    except LockUnavailable as error:
        raise ModelLoadFailed(f"model '{model_id}' cannot be loaded: {error}") from error
