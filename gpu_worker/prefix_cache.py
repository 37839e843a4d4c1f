"""Lets a request continue from the sequence of an earlier one. Used by `engine.py`; knows sequences, not the engine's library.

What is kept of a finished request is its native sequence and the list of the tokens whose keys and values are in it. `kv_slots.py`
decides which one a request gets. Everything blocks for as long as the native call does.
"""

import logging
import time
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from gpu_worker.engine_port import TokenSequence
from gpu_worker.errors import EngineFault
from gpu_worker.genai_api import NativeInputs
from gpu_worker.kv_slots import KvSlots, Slot, SlotBounds, Taken, Wanted
from gpu_worker.sampling import SearchOptions
from ipc.messages import FailCode, PrefixReuse

logger = logging.getLogger(__name__)

# For requests that do not say how long their prefix may be kept.
DEFAULT_TTL_S = 3600
# A kept sequence with room for twice the first request serves some more turns of the conversation.
_ROOM_FACTOR = 2
_ROOM_STEP = 256
# The last token of an answer has no keys and values yet: a sequence that went on behind it would skip it without a word. And a cache that
# grows with its sequence cannot be cut at its very end, only before it.
_NOT_REUSED = 2


class RewindableSequence(TokenSequence, Protocol):
    """A sequence that can go back."""

    def rewind(self, length: int, options: SearchOptions) -> None:
        """Forget all tokens past the first `length`, and search with these options from now on. Raises EngineFault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceCosts:
    """Of the model's sequences: see `KvFacts`. window: tokens that a sequence can hold at most; None when unknown."""

    token_bytes: int
    is_preallocated: bool
    longest_kept: int | None
    window: int | None

    def size_bytes(self, tokens: int, capacity: int) -> int:
        """Return what a sequence of so many tokens takes that could hold `capacity`."""
        return self.token_bytes * (capacity if self.is_preallocated else tokens)


class PrefixCache:
    """Of one engine.

    begin: makes a sequence of the engine. traits_of: what two requests must share for one's sequence to serve the other.
    """

    def __init__(
        self,
        begin: Callable[[SearchOptions], RewindableSequence],
        traits_of: Callable[[SearchOptions], Hashable],
        costs: SequenceCosts,
        eos_ids: Collection[int],
        bounds: SlotBounds,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._begin = begin
        self._traits_of = traits_of
        self._costs = costs
        self._eos_ids = eos_ids
        self._bounds = bounds
        self._clock = clock
        self._slots: KvSlots[RewindableSequence] = KvSlots(bounds)
        self._can_rewind = bounds.max_slots > 0

    def start(self, prompt_ids: Sequence[int], options: SearchOptions, reuse: PrefixReuse | None) -> TokenSequence:
        """Begin a request. reuse: None neither continues anything nor keeps anything. Raises EngineFault."""
        if reuse is None or not self._can_rewind:
            return self._begin_afresh(options)

        wanted = self._wanted(prompt_ids, options, reuse)
        taken = self._slots.take(wanted, self._clock())

        if taken is not None:
            return CachedSequence(self, taken.slot.sequence, wanted, options, taken)

        return CachedSequence(self, self.begin_roomy(options), wanted, options)

    def begin_roomy(self, options: SearchOptions) -> RewindableSequence:
        """Begin a sequence that is to be kept. Raises EngineFault."""
        return self._begin_afresh(replace(options, max_length=self.capacity_for(options)))

    def rewind(self, sequence: RewindableSequence, length: int, options: SearchOptions) -> bool:
        """Make a sequence go back; False when it cannot, and then it is closed. Raises EngineFault when the engine broke."""
        try:
            sequence.rewind(length, options)
        except EngineFault as fault:
            sequence.close()

            if fault.is_fatal:
                raise

            # Some kinds of models cannot, and only the attempt tells.
            logger.warning("no prefix is kept any more, since this model cannot go back: %s", fault)
            self._can_rewind = False
            self._slots.forget_all()
            return False

        return True

    def forget_expired(self) -> float | None:
        """Close what was kept for long enough. Return in how many seconds the next one is due; None when nothing is kept."""
        return self._slots.forget_expired(self._clock())

    def keep(self, sequence: RewindableSequence, wanted: Wanted, capacity: int, tokens: Sequence[int]) -> None:
        """Take in the sequence of a request that has ended. tokens: those whose keys and values are in it."""
        longest = self._costs.longest_kept

        if not self._can_rewind or (longest is not None and len(tokens) >= longest):
            sequence.close()
            return

        ttl_s = DEFAULT_TTL_S if wanted.reuse.ttl_s is None else wanted.reuse.ttl_s
        self._slots.keep(
            Slot(
                sequence=sequence,
                tokens=tokens,
                prompt_length=min(len(wanted.tokens), len(tokens)),
                reuse=wanted.reuse,
                traits=wanted.traits,
                capacity=capacity,
                size_bytes=self._costs.size_bytes(len(tokens), capacity),
                expires_at=self._clock() + ttl_s,
            )
        )

    def put_back(self, slot: Slot[RewindableSequence]) -> None:
        """Keep what was taken and not touched."""
        self._slots.keep(slot)

    def is_end(self, token: int) -> bool:
        return token in self._eos_ids

    def _wanted(self, prompt_ids: Sequence[int], options: SearchOptions, reuse: PrefixReuse) -> Wanted:
        return Wanted(
            tokens=list(prompt_ids),
            reuse=reuse,
            traits=self._traits_of(options),
            length=options.max_length,
            size_bytes=self._costs.size_bytes(len(prompt_ids), self.capacity_for(options)),
        )

    def capacity_for(self, options: SearchOptions) -> int:
        """Return for how many tokens a sequence is made: some more than the request needs, so that the next turns fit."""
        needed, window = options.max_length, self._costs.window

        if not self._costs.is_preallocated:
            # The length alone costs next to nothing.
            return needed if window is None else max(needed, window)

        roomy = -(-needed * _ROOM_FACTOR // _ROOM_STEP) * _ROOM_STEP
        roomy = roomy if window is None else min(roomy, window)
        # No more than its share of the memory, so that all slots can be used.
        share = self._bounds.max_bytes // self._bounds.max_slots // max(self._costs.token_bytes, 1)
        return max(needed, min(roomy, share))

    def _begin_afresh(self, options: SearchOptions) -> RewindableSequence:
        try:
            return self._begin(options)
        except EngineFault as fault:
            if fault.code is not FailCode.OUT_OF_MEMORY or not self._slots.forget_all():
                raise

            logger.warning("the kept prefixes made room for a request: %s", fault)

        return self._begin(options)


class CachedSequence:
    """A sequence with the record of its tokens. See `TokenSequence` in `engine_port.py`.

    taken: what it continues from. It goes back only when the first tokens are fed: who leaves before that leaves everything as it was.
    (And a cache that went back twice without a run between is spoiled.)
    """

    def __init__(
        self,
        cache: PrefixCache,
        sequence: RewindableSequence,
        wanted: Wanted,
        options: SearchOptions,
        taken: Taken[RewindableSequence] | None = None,
    ) -> None:
        self._cache = cache
        self._sequence = sequence
        self._wanted = wanted
        self._options = options
        self._taken = taken
        self._capacity = cache.capacity_for(options) if taken is None else taken.slot.capacity
        self.cached_tokens = 0 if taken is None else taken.length
        self._tokens = list(wanted.tokens[: self.cached_tokens])
        self._is_answering = False
        self._is_over = False

    def show(self, tensors: NativeInputs) -> None:
        raise AssertionError("nothing that is kept has pictures in it")

    def feed(self, tokens: Sequence[int]) -> None:
        if self._taken is not None:
            tokens = self._go_back(self._taken, tokens)
            self._taken = None

        self._sequence.feed(tokens)
        self._tokens += tokens

    def step(self) -> int:
        token = self._sequence.step()
        self._is_answering = True

        # The engine leaves the end token out of its sequence.
        if not self._cache.is_end(token):
            self._tokens.append(token)

        return token

    def keep(self) -> None:
        if self._is_over:
            return

        if self._taken is not None:
            self._is_over = True
            self._cache.put_back(self._taken.slot)
        elif not self._tokens:
            self.close()
        else:
            self._is_over = True
            known = self._tokens[:-_NOT_REUSED] if self._is_answering else self._tokens
            self._cache.keep(self._sequence, self._wanted, self._capacity, known)

    def close(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._sequence.close()

    def _go_back(self, taken: Taken[RewindableSequence], tokens: Sequence[int]) -> Sequence[int]:
        """Make the sequence ready for these tokens; return what is to be fed."""
        if self._cache.rewind(self._sequence, taken.length, self._options):
            return tokens

        # Told once in the life of a worker: from then on nothing is kept.
        everything = [*self._tokens, *tokens]
        self._sequence = self._cache.begin_roomy(self._options)
        self._tokens, self.cached_tokens = [], 0
        return everything
