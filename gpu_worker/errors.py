"""Errors of the worker.

WorkerError
├── LoadFault       the model cannot be loaded; told as LoadFailed, and the worker ends
├── RequestFault    the request is at fault; told as Rejected, and the worker goes on
└── EngineFault     the engine broke under a request; told as Failed
"""

from ipc.messages import FailCode, LoadFailCode, RejectCode


class WorkerError(Exception):
    """Any fault that the worker can name. The message is one line, fit for a client."""


class LoadFault(WorkerError):
    """The model cannot be loaded."""

    def __init__(self, code: LoadFailCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class RequestFault(WorkerError):
    """The request cannot be served by this model, whatever the state of the worker. field: of the client's request; None: not one field."""

    def __init__(self, code: RejectCode, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.field = field


class EngineFault(WorkerError):
    """The engine raised. is_fatal: the process cannot be trusted any more (memory ran out, or the device is in a sticky error)."""

    def __init__(self, code: FailCode, message: str, *, is_fatal: bool) -> None:
        super().__init__(message)
        self.code = code
        self.is_fatal = is_fatal
