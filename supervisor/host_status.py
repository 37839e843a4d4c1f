"""What the host reports about itself. Values only."""

from dataclasses import dataclass
from enum import StrEnum

from ipc.messages import Loaded
from supervisor.memory_watch import VramRelease


class HostState(StrEnum):
    """What the server is doing."""

    IDLE = "idle"
    LOADING = "loading"
    READY = "ready"
    BUSY = "busy"
    DRAINING = "draining"
    DEGRADED = "degraded"  # a process that cannot be ended still holds memory


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStatus:
    """A report at one moment.

    model_id, loaded: None while no model is loaded. worker_pid: None while there is no worker.
    generation: number of the newest worker, 0 before the first. restarts: workers that ended although nobody wanted that.
    running: requests that the worker works on. parallel: how many it gets at the same time; None while no model is loaded.
    waiting: requests in the queue. max_queue: its bound, 0 means none.
    """

    state: HostState
    model_id: str | None
    loaded: Loaded | None
    worker_pid: int | None
    generation: int
    restarts: int
    running: int
    parallel: int | None
    waiting: int
    max_queue: int


@dataclass(frozen=True, slots=True)
class UnloadReport:
    """model_id: what was resident and is gone; None when nothing was. vram: of its GPU; None when it was on none."""

    model_id: str | None
    vram: VramRelease | None
