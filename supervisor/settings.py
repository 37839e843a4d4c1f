"""What the operator decides about workers and turns. Frozen, made once by the command line, passed in parts."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from ipc.messages import DeviceChoice
from supervisor.poison_prompts import PoisonBounds
from supervisor.restart_settings import RestartSettings
from supervisor.watch_bounds import WatchBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLockSettings:
    """How the servers of one machine keep out of each other's way.

    state_dir: the folder in which they find each other; None for a server that is alone.
    is_on: load one at a time. timeout_s: longest wait for another server's load; 0 means one attempt.
    kind: which command this process serves, for the others to read.
    """

    state_dir: Path | None = None
    is_on: bool = True
    timeout_s: float = 120.0
    kind: str = "serve"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """Bounds of memory. is_checked: refuse a load that does not fit. Reserves, in MiB, stay free for others.

    release_wait_s: longest wait for the memory of a GPU after the end of a worker.
    """

    is_checked: bool = True
    ram_reserve_mb: float = 2048.0
    vram_reserve_mb: float = 1536.0
    release_wait_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KvSettings:
    """What a worker keeps of finished requests: the keys and values of so many, in so much memory (MiB). max_slots: 0 keeps none.

    has_one_scope: all clients may share what is kept: they have the same key, or none.
    """

    max_slots: int = 4
    memory_mb: float = 1024.0
    has_one_scope: bool = True

    @property
    def max_bytes(self) -> int:
        """The bound of memory in bytes."""
        return int(self.memory_mb * (1 << 20))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecycleSettings:
    """When a worker is replaced for the memory that it has taken since its first request.

    growth_mb: of main memory that it shares with nobody, in MiB; 0 means never. least_age_s: not before it was used for so long.
    """

    growth_mb: float = 4096.0
    least_age_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareSettings:
    """Whether a worker process waits for the next load. after_load_s: it is made so long after a load has ended.

    look_s: how often it is asked whether memory is short.
    """

    is_on: bool = False
    after_load_s: float = 1.0
    look_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSettings:
    """Bounds and choices of the supervisor. Times are in seconds.

    runtime_dir: private directory (mode 0700) for the workers' sockets.
    max_queue: requests that may wait for the turn; 0 means no bound. The one that runs does not count.
    queue_timeout_s: longest wait for the turn; 0 means for ever.
    parallel: most requests that a worker gets at the same time, where its model can take several.
    prefill_chunk, threads, has_loop_guard: handed to the worker, see `ipc.launch_spec`.
    kv: what a worker keeps for the next turn of a conversation.
    load_lock: what is shared with other servers of this machine.
    memory: whether a model fits, and whether its memory came back.
    recycle: when a worker that takes more and more memory is replaced.
    spare: whether a process waits for the next load.
    watch: how long a worker that works on something may show no progress before it counts as hung.
    restart: when a model whose workers end is started again. poison: when a prompt under which they end is refused.
    cancel_grace_s: from a Cancel to the worker's terminal message; past it the worker is killed as soon as somebody waits for the turn.
    stop_grace_s, kill_wait_s: see `supervisor.child_process.ChildProcess.stop`.
    oom_counter: file in which the kernel counts what it ended for lack of memory; None: that of our own control group.
    event_log: where events are written for a replay (`supervisor.event_log`); None for nowhere.
    worker_command: argv before `--launch-fd N` and, for a spare, `--parent-pid P`; tests put a stand-in here.
    """

    runtime_dir: Path
    device: DeviceChoice = DeviceChoice.AUTO
    max_queue: int = 8
    queue_timeout_s: float = 300.0
    prefill_chunk: int = 128
    parallel: int = 1
    threads: int | None = None
    has_loop_guard: bool = True
    kv: KvSettings = field(default_factory=KvSettings)
    load_lock: LoadLockSettings = field(default_factory=LoadLockSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    recycle: RecycleSettings = field(default_factory=RecycleSettings)
    spare: SpareSettings = field(default_factory=SpareSettings)
    watch: WatchBounds = field(default_factory=WatchBounds)
    restart: RestartSettings = field(default_factory=RestartSettings)
    poison: PoisonBounds = field(default_factory=PoisonBounds)
    cancel_grace_s: float = 30.0
    stop_grace_s: float = 1.0
    kill_wait_s: float = 5.0
    oom_counter: Path | None = None
    event_log: Path | None = None
    worker_command: tuple[str, ...] = field(default=(sys.executable, "-m", "gpu_worker"))


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model as the supervisor knows it: the id that users see and the absolute path of its folder."""

    model_id: str
    path: Path
