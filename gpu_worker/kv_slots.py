"""Which kept sequence a request continues from, and which ones go when there is no room. Pure policy, without engine and clock.

A sequence is kept under the request that it served last. `prefix_cache.py` asks here before each request and hands the sequence back
after it. A taken sequence is in nobody's list, so no other request can touch it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ipc.messages import PrefixReuse

# A request takes a kept sequence over when it shares at least this part of the prompt that the sequence served. Less is another
# conversation with the same system prompt, whose own history would be lost.
_SHARED_PARTS = 3
_PARTS = 4


class Closable(Protocol):
    def close(self) -> None:
        """Give the memory back."""


_Sequence = TypeVar("_Sequence", bound=Closable)


@dataclass(frozen=True, slots=True)
class SlotBounds:
    """max_slots: sequences that may be kept; 0 keeps none. max_bytes: of keys and values in all of them."""

    max_slots: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a request asks of a sequence.

    traits: two sequences with equal ones answer alike. length: tokens of prompt and answer. size_bytes: what a new one would take.
    """

    tokens: Sequence[int]
    reuse: PrefixReuse
    traits: Hashable
    length: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot(Generic[_Sequence]):
    """A kept sequence.

    tokens: those whose keys and values are there. prompt_length: how many of them were asked, the others were answered.
    reuse, traits: of the request that it served. capacity: tokens that it can hold.
    """

    sequence: _Sequence
    tokens: Sequence[int]
    prompt_length: int
    reuse: PrefixReuse
    traits: Hashable
    capacity: int
    size_bytes: int
    expires_at: float


@dataclass(frozen=True, slots=True)
class Taken(Generic[_Sequence]):
    """What a request continues from, and how many of its tokens it may keep."""

    slot: Slot[_Sequence]
    length: int


class KvSlots(Generic[_Sequence]):
    """The kept sequences of one worker, the one used last at the end."""

    def __init__(self, bounds: SlotBounds) -> None:
        self._bounds = bounds
        self._slots: list[Slot[_Sequence]] = []

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def size_bytes(self) -> int:
        """Memory of all that is kept."""
        return sum(slot.size_bytes for slot in self._slots)

    def take(self, wanted: Wanted, now: float) -> Taken[_Sequence] | None:
        """Return what the request continues from; None when it must begin afresh, for which there is room then."""
        self.forget_expired(now)
        self._forget_outgrown(wanted)
        best = self._best_of_its_own(wanted)

        if best is not None:
            return self._hand_over(best, wanted)

        while self._slots and not self._has_room(wanted.size_bytes):
            oldest = self._slots[0]

            if _usable_length(oldest, wanted) > 0:
                return self._hand_over(oldest, wanted)

            self._forget(oldest)

        return None

    def keep(self, slot: Slot[_Sequence]) -> None:
        """Take a sequence in, at the cost of those that were used least recently. One that is too large alone is closed."""
        if self._bounds.max_slots < 1 or slot.size_bytes > self._bounds.max_bytes:
            slot.sequence.close()
            return

        while self._slots and not self._has_room(slot.size_bytes):
            self._forget(self._slots[0])

        self._slots.append(slot)

    def forget_expired(self, now: float) -> float | None:
        """Close what was kept for long enough. Return in how many seconds the next one is due; None when nothing is kept."""
        for slot in [slot for slot in self._slots if slot.expires_at <= now]:
            self._forget(slot)

        return min((slot.expires_at - now for slot in self._slots), default=None)

    def forget_all(self) -> bool:
        """Close everything; say whether there was anything."""
        had_any = bool(self._slots)

        for slot in list(self._slots):
            self._forget(slot)

        return had_any

    def _best_of_its_own(self, wanted: Wanted) -> Slot[_Sequence] | None:
        best, best_length = None, 0

        for slot in self._slots:
            length = _usable_length(slot, wanted) if slot.reuse.conversation == wanted.reuse.conversation else 0

            # Among equals the one used last: its answer is the likeliest to go on.
            if length * _PARTS >= slot.prompt_length * _SHARED_PARTS and length >= max(best_length, 1):
                best, best_length = slot, length

        return best

    def _forget_outgrown(self, wanted: Wanted) -> None:
        """A sequence that the request would continue from, were it not too short, serves its conversation no more."""
        for slot in list(self._slots):
            is_own = _may_share(slot, wanted) and slot.reuse.conversation == wanted.reuse.conversation

            if (
                is_own
                and slot.capacity < wanted.length
                and common_length(slot.tokens, wanted.tokens) >= slot.prompt_length
            ):
                self._forget(slot)

    def _has_room(self, size_bytes: int) -> bool:
        is_free = len(self._slots) < self._bounds.max_slots
        return is_free and self.size_bytes + size_bytes <= self._bounds.max_bytes

    def _hand_over(self, slot: Slot[_Sequence], wanted: Wanted) -> Taken[_Sequence]:
        self._slots.remove(slot)
        return Taken(slot, _usable_length(slot, wanted))

    def _forget(self, slot: Slot[_Sequence]) -> None:
        self._slots.remove(slot)
        slot.sequence.close()


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many tokens both begin with."""
    same, end = 0, min(len(first), len(second))

    # Comparing slices is the interpreter's own work; a loop over the tokens of a long prompt takes milliseconds.
    while same < end:
        middle = (same + end + 1) // 2

        if first[same:middle] == second[same:middle]:
            same = middle
        else:
            end = middle - 1

    return same


def _may_share(slot: Slot[_Sequence], wanted: Wanted) -> bool:
    return slot.reuse.scope == wanted.reuse.scope and slot.traits == wanted.traits


def _usable_length(slot: Slot[_Sequence], wanted: Wanted) -> int:
    """Return how many tokens of the slot the request may keep: never the last of its prompt, whose output the answer begins with."""
    if not _may_share(slot, wanted) or slot.capacity < wanted.length:
        return 0

    return min(common_length(slot.tokens, wanted.tokens), len(wanted.tokens) - 1)
