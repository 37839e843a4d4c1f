"""How long a worker may show nothing before it counts as hung. One table; values only, in seconds.

The figures bound how late a hang is found. None of them bounds how long honest work may take: work shows itself, and restarts them.
"""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchBounds:
    """Bounds of `supervisor.progress_judge`. Raises ValueError, naming the field, for one that is not above zero.

    interval_s: between two looks at a process that sends nothing. A look that comes later counts as two intervals at most, so that
        a front that was itself without CPU, stopped or suspended does not blame the worker for it.
    stopped_s: a process that was stopped (SIGSTOP) for so long is hung.
    request_stall_s, load_stall_s: without any sign of work, from inside or outside, while the process starts or works on a request, and
        while a model loads.
    kernel_wait_s: instead of the two above, if longer, while a thread hangs in an uninterruptible wait: a slow disk may come back,
        and until it does a signal would not end the process either.
    prepare_budget_s: from spawn to Hello, and from a request to its first slice (the prompt is encoded, memory is taken).
    call_budget_s: least budget of one native call (a slice, a token) that burns CPU and never comes back.
    budget_factor: a call may take so many times as long as calls of its kind took before.
    unmeasured_token_s: for each token of a slice, added to call_budget_s as long as no slice was measured in this worker, and always for
        the part of a prompt that has pictures in it.
    load_budget_s: for a load that burns CPU but neither reads from a disk nor takes memory. Hours of reading are no hang.
    """

    interval_s: float = 0.5
    stopped_s: float = 3.0
    request_stall_s: float = 15.0
    load_stall_s: float = 60.0
    kernel_wait_s: float = 60.0
    prepare_budget_s: float = 60.0
    call_budget_s: float = 30.0
    budget_factor: float = 20.0
    unmeasured_token_s: float = 2.0
    load_budget_s: float = 1800.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            # Not `<= 0`: what is no number is above nothing either.
            if not value > 0:
                raise ValueError(f"{name} must be above zero: {value}")
