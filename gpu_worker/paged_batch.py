"""Several sequences in one model, which join and leave at any step: a batch over the engine's own scheduler.

The engine never takes a block back from a sequence that runs: when the pool is full, all of them would stop for ever. So a sequence is let
in only when the pool has room for all that it may become, and waits here until then, in order. Made by `engine.py`, driven by `loop.py`.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from gpu_worker.batch import Broke, Ended, Event, Fed, Made
from gpu_worker.engine_port import ShownPictures
from gpu_worker.errors import EngineFault, RequestFault
from gpu_worker.fault_text import engine_fault
from gpu_worker.genai_api import GenAi, NativeEngine, NativeEvent, NativeModel, NativeRequest, NativeTurnOptions
from gpu_worker.guidance import begin_fault
from gpu_worker.sampling import SearchOptions
from ipc.messages import FailCode, PrefixReuse, RejectCode

# Steps in which nothing happens although there is work. None is normal; more than this many are a standstill.
_MOST_IDLE_STEPS = 100
_EVENTS_PER_SEQUENCE = 4


@dataclass(frozen=True, slots=True)
class PoolSize:
    """blocks of block_size tokens; chunk_size: most tokens of one prompt in a step.

    keeps_prefixes: blocks that nobody uses any more are kept, and found again by what they hold.
    """

    blocks: int
    block_size: int
    chunk_size: int
    keeps_prefixes: bool = True

    def blocks_for(self, tokens: int) -> int:
        """How many blocks so many tokens take."""
        return -(-tokens // self.block_size)


@dataclass(slots=True)
class _Sequence:
    """request: None while it waits for room. fed: at least so many tokens of the prompt are in. cached: known at its end."""

    number: int
    prompt_ids: Sequence[int]
    options: SearchOptions
    request: NativeRequest | None = None
    fed: int = 0
    has_answer: bool = False
    cached: int = 0


@dataclass(slots=True)
class _Room:
    """What of the pool is promised to whom."""

    pool: PoolSize
    promised: dict[int, int] = field(default_factory=dict)

    def take(self, number: int, tokens: int) -> bool:
        """Promise room for so many tokens; False when there is not enough."""
        blocks = self.pool.blocks_for(tokens)

        if sum(self.promised.values()) + blocks > self.pool.blocks:
            return False

        self.promised[number] = blocks
        return True


class PagedBatch:
    """See `Batch` in `batch.py`. capacity: how many sequences the engine takes."""

    def __init__(self, library: GenAi, model: NativeModel, pool: PoolSize, capacity: int) -> None:
        """Raises what the library raises: it is still loading."""
        self.capacity = capacity
        self._library = library
        self._pool = pool
        self._engine: NativeEngine = library.Engine(model)
        self._buffer = self._engine.create_event_buffer(capacity * _EVENTS_PER_SEQUENCE)
        self._room = _Room(pool)
        self._sequences: dict[int, _Sequence] = {}
        self._waiting: deque[_Sequence] = deque()
        self._by_request: dict[NativeRequest, _Sequence] = {}
        self._idle_steps = 0
        flags = library.EngineEventFlags
        self._token, self._finished, self._failed = int(flags.TOKEN), int(flags.TURN_FINISHED), int(flags.FAILED)

    @property
    def longest(self) -> int:
        """Most tokens of a sequence, prompt and answer."""
        return self._pool.blocks * self._pool.block_size

    def prove(self, token: int) -> None:
        """Make one token, while loading. Raises EngineFault when that cannot be done."""
        number = 0
        self.join(number, [token], SearchOptions.greedy(max_length=2))

        try:
            # Whatever comes first is the proof, or the fault.
            while not (events := [event for event in self.step() if not isinstance(event, Fed)]):
                pass

            if isinstance(events[0], Broke):
                raise events[0].fault
        finally:
            self.leave(number)

    def join(
        self,
        number: int,
        prompt_ids: Sequence[int],
        options: SearchOptions,
        pictures: ShownPictures | None = None,
        reuse: PrefixReuse | None = None,
    ) -> int:
        assert pictures is None, "a model of several sequences does not see"
        # The engine keeps blocks by what is in them, for as long as nobody else needs them.
        del reuse

        if self._pool.blocks_for(options.max_length) > self._pool.blocks:
            raise RequestFault(
                RejectCode.CONTEXT_LENGTH_EXCEEDED,
                f"prompt and answer may have {options.max_length} tokens together, and this model's maximum context length is "
                f"{self.longest} tokens as it is loaded here",
            )

        sequence = _Sequence(number, prompt_ids, options)
        self._sequences[number] = sequence
        self._waiting.append(sequence)
        return 0

    def step(self) -> Sequence[Event]:
        events: list[Event] = [*self._let_in()]

        if not self._by_request:
            return events

        try:
            for event in self._engine.run(self._buffer):
                events.extend(self._events_of(event))
        except Exception as error:  # the library raises RuntimeError for everything
            # An engine whose run failed refuses everything from then on.
            fault = engine_fault(error)
            raise EngineFault(fault.code, str(fault), is_fatal=True) from error

        events.extend(self._fed())
        self._watch_standstill(has_moved=bool(events))
        return events

    def cached_tokens(self, number: int) -> int:
        sequence = self._sequences.get(number)
        return 0 if sequence is None else sequence.cached

    def forget_expired(self) -> float | None:
        return None

    def leave(self, number: int, *, is_reusable: bool = False) -> None:
        del is_reusable
        sequence = self._sequences.pop(number, None)

        if sequence is None:
            return

        self._room.promised.pop(number, None)

        if sequence.request is None:
            self._waiting.remove(sequence)
            return

        del self._by_request[sequence.request]

        try:
            # Also in the middle of an answer: its place and its blocks are free at once.
            sequence.request.close()
        except Exception as error:  # the library raises RuntimeError for everything
            raise engine_fault(error) from error

    def _let_in(self) -> list[Event]:
        """Begin those that wait, in order, as long as there is room. Returns the ends of those that could not be begun."""
        ends: list[Event] = []

        while self._waiting and self._room.take(self._waiting[0].number, self._waiting[0].options.max_length):
            sequence = self._waiting.popleft()

            try:
                self._begin(sequence)
            except Exception as error:  # the library raises RuntimeError for everything
                fault = engine_fault(error) if sequence.options.guidance is None else begin_fault(error)
                ends.append(Broke(sequence.number, fault))

        return ends

    def _begin(self, sequence: _Sequence) -> None:
        session = self._library.RequestOptions()
        session.set_max_session_tokens(sequence.options.max_length)
        sequence.request = self._engine.create_request(options=session)
        self._by_request[sequence.request] = sequence
        options = self._library.TurnOptions(sequence.request)
        _set_options(options, sequence.options, len(sequence.prompt_ids))
        sequence.request.begin_turn(list(sequence.prompt_ids), options)

    def _events_of(self, event: NativeEvent) -> list[Event]:
        flags = int(event.flags)

        # Others tell that the pool is full, and belong to nobody.
        if not flags & (self._token | self._finished):
            return []

        sequence = self._by_request.get(event.request)

        if sequence is None:
            return []

        events: list[Event] = []

        if flags & self._token and event.token is not None:
            sequence.has_answer = True
            events.append(Made(sequence.number, int(event.token)))

        if flags & self._finished:
            events.extend(self._end_of(sequence, event, is_failed=bool(flags & self._failed)))

        return events

    def _end_of(self, sequence: _Sequence, event: NativeEvent, *, is_failed: bool) -> list[Event]:
        if event.usage is not None:
            sequence.cached = int(event.usage.cached_prompt_tokens)

        if is_failed:
            return [
                Broke(
                    sequence.number,
                    EngineFault(FailCode.ENGINE_ERROR, f"the engine gave up: {event.error_code}", is_fatal=True),
                )
            ]

        # Every other end is one that the generation sees by itself: it counts tokens, and it asked for a cancel.
        return [Ended(sequence.number)] if int(event.finish_reason) == int(self._library.FinishReason.EOS) else []

    def _fed(self) -> list[Event]:
        """How far the prompts are. The engine does not say; it takes a chunk of each in every step."""
        fed: list[Event] = []

        for sequence in self._by_request.values():
            most = len(sequence.prompt_ids) - 1

            if not sequence.has_answer and sequence.fed < most:
                sequence.fed = min(sequence.fed + self._pool.chunk_size, most)
                fed.append(Fed(sequence.number, sequence.fed))

        return fed

    def _watch_standstill(self, *, has_moved: bool) -> None:
        """A step that brings nothing forth is followed by another at once; for ever, that would look like work from outside."""
        self._idle_steps = 0 if has_moved else self._idle_steps + 1

        if self._idle_steps > _MOST_IDLE_STEPS:
            self._idle_steps = 0
            raise EngineFault(FailCode.ENGINE_ERROR, "the engine has work and does none of it", is_fatal=True)


def _set_options(turn: NativeTurnOptions, options: SearchOptions, prompt_tokens: int) -> None:
    turn.set_max_generated_tokens(options.max_length - prompt_tokens)
    turn.set_do_sample(options.do_sample)
    turn.set_temperature(options.temperature)
    turn.set_top_p(options.top_p)
    turn.set_top_k(options.top_k)
    turn.set_seed(options.seed)

    if options.repetition_penalty is not None:
        turn.set_repetition_penalty(options.repetition_penalty)

    if options.guidance is not None:
        turn.set_guidance(options.guidance.kind.value, options.guidance.text)
