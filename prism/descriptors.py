"""How many files the process may have open, and whether enough are left for what is not a connection."""

import contextlib
import os
import resource
import sys

# Below this many free ones no connection is accepted: a worker needs about a dozen to start, the lock of a load two.
RESERVE = 32


def raise_descriptor_limit() -> None:
    """Let this process have as many files open as the system allows it; what it starts with is often 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    # Some systems refuse a limit that they tell themselves.
    with contextlib.suppress(ValueError, OSError):
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descriptor_limit() -> int:
    """Return how many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def is_short(descriptor: int, limit: int) -> bool:
    """Say whether a descriptor that was just made tells that few are left: the system always gives the lowest free number."""
    return descriptor >= limit - RESERVE


def are_short(limit: int) -> bool:
    """Say whether few descriptors are left."""
    try:
        probe = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True

    os.close(probe)
    return is_short(probe, limit)
