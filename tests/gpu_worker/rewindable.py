"""A made-up engine that can go back, as strict as the real one: each token is a digest of all tokens whose keys and values are there."""

import zlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from gpu_worker.detokenizer import Detokenizer, TableDetokenizer
from gpu_worker.engine_port import EngineFacts, Picture, ReadPrompt, TokenSequence
from gpu_worker.errors import EngineFault
from gpu_worker.genai_api import NativeInputs
from gpu_worker.kv_slots import SlotBounds
from gpu_worker.prefix_cache import PrefixCache, SequenceCosts
from gpu_worker.sampling import SearchOptions
from ipc.messages import FailCode, PrefixReuse
from tests.gpu_worker.scripted import BYTES, EOS, facts

BOUNDS = SlotBounds(4, 1_000_000)
COSTS = SequenceCosts(token_bytes=10, is_preallocated=False, longest_kept=None, window=1_000)


class DigestSequence:
    """Its end token does not become a part of it, as in the real engine."""

    cached_tokens = 0

    def __init__(self, engine: "DigestEngine", options: SearchOptions) -> None:
        self._engine = engine
        self._tokens: list[int] = []
        self._computed = 0
        self._has_gone_back = False
        self.options = options
        self.is_closed = False
        engine.alive.append(self)

    def show(self, tensors: NativeInputs) -> None:
        raise AssertionError("what is shown is not kept")

    def feed(self, tokens: Sequence[int]) -> None:
        assert not self.is_closed
        assert len(self._tokens) == self._computed, "a token of the answer was skipped"
        self._has_gone_back = False
        self._tokens += tokens
        self._computed = len(self._tokens)
        assert self._computed <= self.options.max_length

    def step(self) -> int:
        assert not self.is_closed
        self._computed = len(self._tokens)
        digest = zlib.crc32(repr(self._tokens).encode())
        token = EOS if digest % 11 == 0 else digest % 250

        if token != EOS:
            self._tokens.append(token)

        return token

    def rewind(self, length: int, options: SearchOptions) -> None:
        assert not self.is_closed

        if self._engine.rewind_fault is not None:
            raise self._engine.rewind_fault

        self.options = options
        assert not self._has_gone_back, "went back twice without a run between"
        self._has_gone_back = True
        assert length == self._computed == len(self._tokens) or length < self._computed, "past what was computed"
        self._tokens = self._tokens[:length]
        self._computed = length

    def keep(self) -> None:
        self.close()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._engine.alive.remove(self)


@dataclass
class DigestEngine:
    """memory: how many sequences may be alive; one more is out of memory."""

    bounds: SlotBounds = BOUNDS
    costs: SequenceCosts = COSTS
    memory: int = 100
    facts: EngineFacts = field(default_factory=facts)
    alive: list[DigestSequence] = field(default_factory=list)
    begun: list[SearchOptions] = field(default_factory=list)
    rewind_fault: EngineFault | None = None
    now: float = 0.0
    traits_of: Callable[[SearchOptions], Hashable] = lambda options: options.method

    def __post_init__(self) -> None:
        self.cache = PrefixCache(
            self._begin, self.traits_of, self.costs, self.facts.eos_ids, self.bounds, lambda: self.now
        )

    def encode(self, pieces: Sequence[str]) -> list[int]:
        return list("".join(pieces).encode())

    def read(self, pieces: Sequence[str], pictures: Sequence[Picture]) -> ReadPrompt:
        raise AssertionError("this engine sees nothing")

    def detokenizer(self, prompt_ids: Sequence[int]) -> Detokenizer:
        return TableDetokenizer(BYTES, drops_leading_spaces=True)

    def start(
        self, prompt_ids: Sequence[int], options: SearchOptions, reuse: PrefixReuse | None = None
    ) -> TokenSequence:
        return self.cache.start(prompt_ids, options, reuse)

    def forget_expired(self) -> float | None:
        return self.cache.forget_expired()

    def _begin(self, options: SearchOptions) -> DigestSequence:
        if len(self.alive) >= self.memory:
            raise EngineFault(FailCode.OUT_OF_MEMORY, "bad_alloc", is_fatal=True)

        self.begun.append(options)
        return DigestSequence(self, options)
