"""Sees a model that is stuck in a cycle of tokens. Pure; one guard per request, asked after every token."""

from collections.abc import Sequence

# A period of up to this many tokens counts as a cycle.
MAX_PERIOD = 64
# A cycle must fill this many tokens and have come this many times: an honest list or table repeats less.
MIN_TOKENS = 200
MIN_REPEATS = 12
# Looking at every token would cost more than the few tokens that looking late lets through.
CHECK_EVERY = 16

_LONGEST_SPAN = max(MIN_TOKENS, MIN_REPEATS * MAX_PERIOD)


def repeated_period(tokens: Sequence[int]) -> int | None:
    """Return the smallest period p with which the last max(200, 12 p) tokens repeat; None when they do not."""
    length = len(tokens)

    for period in range(1, MAX_PERIOD + 1):
        span = max(MIN_TOKENS, MIN_REPEATS * period)

        if length < span:
            return None

        # The last pair tells nearly always, and spares the copy of two slices.
        if tokens[-1] == tokens[-1 - period] and tokens[-span:-period] == tokens[period - span :]:
            return period

    return None


class LoopGuard:
    """Watches the tokens of one request."""

    def __init__(self) -> None:
        self._recent: list[int] = []
        self._seen = 0

    def sees_loop(self, token: int) -> bool:
        """Take the next token; True when the answer has run into a cycle."""
        self._recent.append(token)
        self._seen += 1

        if self._seen % CHECK_EVERY or self._seen < MIN_TOKENS:
            return False

        if len(self._recent) > 2 * _LONGEST_SPAN:
            del self._recent[:-_LONGEST_SPAN]

        return repeated_period(self._recent) is not None
