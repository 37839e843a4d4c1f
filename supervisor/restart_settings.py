"""The figures of the restart policy. Values only; times are in seconds."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartSettings:
    """Bounds of `supervisor.restart_policy`. Raises ValueError, naming the field, for figures that make no sense.

    first_backoff_s, longest_backoff_s: the waits after the second fault and at most, doubled from one to the next.
    jitter: share by which a wait is made longer or shorter at random, so that servers which fail together do not start together.
    deaths_to_open, death_window_s: so many deaths within so long open the breaker.
    failed_loads_to_open: so many failed loads in a row open it.
    open_s, longest_open_s: for how long it opens at first and at most, doubled from one time to the next.
    stable_s: a worker that lived so long and answered a request is sound.
    stale_s: faults that are older than this count no more, once a request was answered since.
    probe_retry_s: what a request is told that comes while another one tries.
    """

    first_backoff_s: float = 1.0
    longest_backoff_s: float = 60.0
    jitter: float = 0.2
    deaths_to_open: int = 5
    death_window_s: float = 60.0
    failed_loads_to_open: int = 3
    open_s: float = 60.0
    longest_open_s: float = 600.0
    stable_s: float = 60.0
    stale_s: float = 600.0
    probe_retry_s: float = 5.0

    def __post_init__(self) -> None:
        if not 0 <= self.jitter < 1:
            raise ValueError(f"jitter must be at least 0 and below 1: {self.jitter}")

        for name, value in asdict(self).items():
            if name != "jitter" and not value > 0:
                raise ValueError(f"{name} must be above zero: {value}")

    def backoff_s(self, faults: int, chance: float) -> float:
        """Return how long to wait after so many faults in a row; nothing after the first. chance: 0 to 1, 0.5 for no jitter."""
        if faults < 2:
            return 0.0

        wait_s = _doubled(self.first_backoff_s, faults - 2, self.longest_backoff_s)
        return min(wait_s * (1 + self.jitter * (2 * chance - 1)), self.longest_backoff_s)

    def open_period_s(self, openings: int) -> float:
        """Return for how long the breaker opens, the n-th time in a row."""
        return _doubled(self.open_s, openings - 1, self.longest_open_s)


def _doubled(first: float, times: int, most: float) -> float:
    # Bounded before it is computed: a model may fail for months.
    return min(first * 2.0 ** min(times, 64), most)
