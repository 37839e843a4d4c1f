"""What reading a body costs, against a piece of work that every machine does more or less as fast: busy or slow, both cost more then."""

import gc
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from prism.api.errors import ApiError

# A decode of 1 MB that makes a text of every four bytes. Texts, since the cost of lists and dicts depends on what else is in memory.
_REFERENCE = b"[" + b'"a",' * 260_000 + b"1]"
_TRIES = 5


def assert_cheap(read: Callable[[], object]) -> None:
    """Fail when reading a body of 10 MB costs as much as making a text of every four bytes of it would.

    The cheapest of several tries counts on both sides, and they take turns: what disturbs one disturbs the other.
    """
    reference_s = reading_s = float("inf")
    # What other tests have left in memory would be walked through by the collector again and again.
    gc.collect()
    gc.freeze()

    try:
        for _ in range(_TRIES):
            reference_s = min(reference_s, _cpu_s(lambda: msgspec.json.decode(_REFERENCE)))
            reading_s = min(reading_s, _cpu_s(read))

            if reading_s < 10 * reference_s:
                return
    finally:
        gc.unfreeze()

    raise AssertionError(f"{reading_s * 1000:.0f} ms; 1 MB of short texts costs {reference_s * 1000:.0f}")


def _cpu_s(work: Callable[[], object]) -> float:
    begun_at = time.process_time()

    with suppress(ApiError):
        work()

    return time.process_time() - begun_at
