"""Why a request was not served, told by type. The HTTP layer translates each to a status and a code in one table.

SupervisorError
├── Refused              the request was not begun; nothing changed; trying again may help
│   ├── ServerBusy           the queue is full, or the wait in it was too long
│   ├── InsufficientResources  memory is short, or another server loads
│   ├── ModelUnavailable     the model's workers keep ending; it is not started again for a while
│   │   └── ModelUnloaded        an operator unloaded it, and the time for what ran was over
│   └── ServerDraining       the server finishes and exits
│       └── ServerFailing        it exits because of a fault of its own
├── RequestFault         the request itself is at fault; the worker is fine
│   ├── ContextLengthExceeded
│   ├── InvalidForModel
│   ├── ImageRefused         a picture cannot be decoded, or is past a bound
│   ├── GuidanceRefused      the constraint on the answer cannot be compiled or kept
│   ├── GuidanceUnsupported  the engine knows no constraints
│   └── PromptRefused        workers ended under this prompt
├── LoadLockError        the lock that servers share was not given (translated by the loader)
│   ├── LoadLockBusy
│   └── LockUnavailable
└── WorkerFault          the worker is gone or useless
    ├── ModelLoadFailed      the model cannot be loaded
    ├── WorkerDied           the process ended under the request
    │   └── WorkerOutOfMemory    the kernel ended it, since memory ran out
    ├── WorkerUnresponsive   the process hung and was ended by us
    ├── EngineFailed         the engine raised; the worker may live on
    └── EngineOutOfMemory    host or device memory ran out
"""

from dataclasses import dataclass

from supervisor.state_folder import StateFault


@dataclass(frozen=True, slots=True)
class Holder:
    """A process and the model that it loads or has loaded; model is None when only the kernel knows of the process."""

    pid: int
    model: str | None


class SupervisorError(Exception):
    """Any reason for which a request gets no answer."""


class Refused(SupervisorError):
    """The request was not begun."""


class ServerBusy(Refused):
    """Too many wait already, or this one waited too long."""


class ModelUnavailable(Refused):
    """The model is not started now, since its workers keep ending. retry_after_s: when it is worth to ask again; above zero."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ModelUnloaded(ModelUnavailable):
    """An operator unloaded the model under this request. The next request loads it again."""


class InsufficientResources(Refused):
    """There is not the memory to load the model, or another process has the right to load. holder: the process in the way, if any is."""

    def __init__(self, message: str, holder: Holder | None) -> None:
        super().__init__(message)
        self.holder = holder


class ServerDraining(Refused):
    """The server finishes what runs and exits; nothing new begins."""


class ServerFailing(ServerDraining):
    """The server found a fault in itself and ends; what runs ends with this too."""


class RequestFault(SupervisorError):
    """The request cannot be served by this model, now or later."""


class ContextLengthExceeded(RequestFault):
    """The prompt fills the model's window."""


class InvalidForModel(RequestFault):
    """The worker found the request unusable (an empty prompt after encoding, for example)."""


class ImageRefused(RequestFault):
    """A picture of the request is none, or too large, or the model cannot take it. field: where in the request; None: nobody can tell."""

    def __init__(self, message: str, field: str | None) -> None:
        super().__init__(message)
        self.field = field


class GuidanceRefused(RequestFault):
    """The engine's compiler does not take the constraint on the answer, or cannot keep up with it. The message is its reason."""


class GuidanceUnsupported(RequestFault):
    """The engine, or this model's tokenizer, cannot constrain an answer."""


class PromptRefused(RequestFault):
    """Workers ended under this prompt, more than once. It is refused for some minutes."""


class LoadLockError(SupervisorError):
    """The right to load was not given."""


class LoadLockBusy(LoadLockError):
    """Another process kept the lock for the whole wait."""


class LockUnavailable(LoadLockError):
    """There can be no lock in this state folder. Trying again changes nothing until somebody changes the folder."""

    def __init__(self, reason: StateFault, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class WorkerFault(SupervisorError):
    """The worker is gone, or cannot be used."""


class ModelLoadFailed(WorkerFault):
    """The model cannot be loaded. The message says why, in the worker's own words."""


class WorkerDied(WorkerFault):
    """The process ended by itself or by somebody's signal. The message holds how it ended and the last line that it wrote."""


class WorkerOutOfMemory(WorkerDied):
    """The kernel ended the process because memory ran out, and said so."""


class WorkerUnresponsive(WorkerFault):
    """The process did not do what it had to within its bound, and was killed."""


class EngineFailed(WorkerFault):
    """The engine raised while it worked on this request."""


class EngineOutOfMemory(WorkerFault):
    """The engine ran out of memory. The worker is recycled, since its allocator keeps what it took."""
