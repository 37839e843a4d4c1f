"""The sequences that a model works on at the same time, and what a step brings forth. Used by `loop.py`, which knows no more than this.

Two kinds: `OneByOne` here, for a model that takes one sequence; `paged_batch.py`, for one whose sequences join and leave at any step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, TypeAlias

from gpu_worker.engine_port import Engine, ShownPictures, TokenSequence
from gpu_worker.errors import EngineFault, RequestFault
from gpu_worker.sampling import SearchOptions
from ipc.messages import PrefixReuse


@dataclass(frozen=True, slots=True)
class Fed:
    """A part of a prompt is in: `done` of its tokens."""

    number: int
    done: int


@dataclass(frozen=True, slots=True)
class Made:
    """A token of an answer."""

    number: int
    token: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The model ended an answer; its end-of-sequence token is not told apart."""

    number: int


@dataclass(frozen=True, slots=True)
class Broke:
    """This sequence broke, and no other."""

    number: int
    fault: EngineFault | RequestFault


Event: TypeAlias = Fed | Made | Ended | Broke


class Batch(Protocol):
    """Sequences by numbers that their owner gives them."""

    @property
    def capacity(self) -> int:
        """How many sequences may be in it."""

    def join(
        self,
        number: int,
        prompt_ids: Sequence[int],
        options: SearchOptions,
        pictures: ShownPictures | None = None,
        reuse: PrefixReuse | None = None,
    ) -> int:
        """Take a sequence in; return how many tokens of its prompt need no work, as far as that is known yet. With pictures: none.

        reuse: see `Engine.start`. Raises EngineFault, or RequestFault when it can never be served.
        """

    def step(self) -> Sequence[Event]:
        """Do one piece of work, which blocks for a forward pass. Raises EngineFault or RequestFault when it broke for every sequence."""

    def cached_tokens(self, number: int) -> int:
        """Return how many tokens of the prompt were known already; final when the sequence has made a token."""

    def leave(self, number: int, *, is_reusable: bool = False) -> None:
        """Give back what a sequence has, whatever its state. Unknown numbers are ignored.

        is_reusable: later requests may continue from it.
        """

    def forget_expired(self) -> float | None:
        """See `Engine.forget_expired`. Called when nothing is in the batch."""


class OneByOne:
    """A batch of one. prefill_chunk: most tokens of a prompt in one step; 0 means all at once."""

    capacity = 1

    def __init__(self, engine: Engine, prefill_chunk: int) -> None:
        self._engine = engine
        self._prefill_chunk = prefill_chunk
        self._number: int | None = None
        self._sequence: TokenSequence | None = None
        self._prompt_ids: Sequence[int] = ()
        self._slices: Iterator[tuple[int, int]] = iter(())
        self._pictures: ShownPictures | None = None  # not shown yet

    def join(
        self,
        number: int,
        prompt_ids: Sequence[int],
        options: SearchOptions,
        pictures: ShownPictures | None = None,
        reuse: PrefixReuse | None = None,
    ) -> int:
        assert self._sequence is None, "the place is taken"
        self._sequence = self._engine.start(prompt_ids, options, reuse)
        self._number = number
        self._prompt_ids = prompt_ids
        self._slices = self._slices_of(self._sequence.cached_tokens, pictures)
        self._pictures = pictures
        return self._sequence.cached_tokens

    def _slices_of(self, start: int, pictures: ShownPictures | None) -> Iterator[tuple[int, int]]:
        if pictures is None:
            return slices(start, len(self._prompt_ids), self._prefill_chunk)

        assert start == 0, "nothing that was kept has pictures in it"
        head = pictures.head_tokens
        return chain([(0, head)], slices(head, len(self._prompt_ids), self._prefill_chunk))

    def step(self) -> Sequence[Event]:
        if self._sequence is None or self._number is None:
            return ()

        borders = next(self._slices, None)

        if borders is None:
            return (Made(self._number, self._sequence.step()),)

        if self._pictures is not None:
            self._sequence.show(self._pictures.tensors)
            self._pictures = None

        first, end = borders
        self._sequence.feed(self._prompt_ids[first:end])
        return (Fed(self._number, end),)

    def cached_tokens(self, number: int) -> int:
        return self._sequence.cached_tokens if self._sequence is not None and number == self._number else 0

    def leave(self, number: int, *, is_reusable: bool = False) -> None:
        if self._sequence is not None and number == self._number:
            sequence, self._sequence, self._number, self._pictures = self._sequence, None, None, None

            if is_reusable:
                sequence.keep()
            else:
                sequence.close()

    def forget_expired(self) -> float | None:
        return self._engine.forget_expired()


def slices(start: int, end: int, chunk: int) -> Iterator[tuple[int, int]]:
    """Yield the borders of the slices in which the tokens from start to end are fed."""
    step = chunk if chunk > 0 else max(end - start, 1)

    for first in range(start, end, step):
        yield first, min(first + step, end)
