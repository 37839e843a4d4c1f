"""An engine and a channel that follow a script, for tests of what lies between them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpu_worker.detokenizer import Detokenizer, TableDetokenizer
from gpu_worker.engine_port import EngineFacts, Picture, ReadPrompt, TokenSequence
from gpu_worker.genai_api import NativeInputs
from gpu_worker.sampling import SearchOptions
from gpu_worker.vocabulary import Vocabulary
from ipc.errors import ChannelClosed
from ipc.messages import Delta, Device, FromWorker, Generate, PrefixReuse, Sampling, Terminal, ToWorker

EOS = 256
# Token n is the byte n; one more token ends an answer.
BYTES = Vocabulary({byte: chr(byte) for byte in range(256)}, lambda token: token.encode("latin-1"), {}, 0)


def request(
    prompt: str = "hello", *, number: int = 1, max_tokens: int = 8, sampling: Sampling | None = None
) -> Generate:
    return Generate(
        request_id=number, prompt=(prompt,), max_tokens=max_tokens, sampling=sampling or Sampling(temperature=0.0)
    )


def facts(context_length: int | None = 1_000) -> EngineFacts:
    return EngineFacts(
        device=Device.CPU,
        fallback_reason=None,
        engine_version="0",
        context_length=context_length,
        vocabulary_size=257,
        top_k=None,
        eos_ids=frozenset({EOS}),
    )


@dataclass
class ScriptedEngine:
    """Answers every prompt with `answer`: a token, or an exception that is raised in the place of one."""

    answer: Sequence[int | Exception]
    facts: EngineFacts = field(default_factory=facts)
    cached_tokens: int = 0
    on_feed: Exception | None = None
    on_guidance: Exception | None = None
    fed: list[tuple[int, ...]] = field(default_factory=list)
    options: list[SearchOptions] = field(default_factory=list)
    reuses: list[PrefixReuse | None] = field(default_factory=list)
    kept: int = 0
    due_s: Sequence[float | None] = ()
    closed: int = 0

    def encode(self, pieces: Sequence[str]) -> list[int]:
        return list("".join(pieces).encode())

    def read(self, pieces: Sequence[str], pictures: Sequence[Picture]) -> ReadPrompt:
        raise AssertionError("no script shows pictures")

    def detokenizer(self, prompt_ids: Sequence[int]) -> Detokenizer:
        return TableDetokenizer(BYTES, drops_leading_spaces=True)

    def start(
        self, prompt_ids: Sequence[int], options: SearchOptions, reuse: PrefixReuse | None = None
    ) -> TokenSequence:
        if options.guidance is not None and self.on_guidance is not None:
            raise self.on_guidance

        self.options.append(options)
        self.reuses.append(reuse)
        return ScriptedSequence(self)

    def forget_expired(self) -> float | None:
        first, *self.due_s = self.due_s or [None]
        return first


class ScriptedSequence:
    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine
        self._answer = iter(engine.answer)
        self.cached_tokens = engine.cached_tokens

    def show(self, tensors: NativeInputs) -> None:
        raise AssertionError("no script shows pictures")

    def feed(self, tokens: Sequence[int]) -> None:
        if self._engine.on_feed is not None:
            raise self._engine.on_feed

        self._engine.fed.append(tuple(tokens))

    def step(self) -> int:
        token = next(self._answer)

        if isinstance(token, Exception):
            raise token

        return token

    def keep(self) -> None:
        self._engine.kept += 1

    def close(self) -> None:
        self._engine.closed += 1


class ScriptedChannel:
    """Gives `waiting` one by one to who waits, then tells that the front is gone.

    waited_ms: how long it was waited for nothing. polled: asked on each look with what was sent so far; what it returns has come meanwhile.
    """

    def __init__(
        self,
        waiting: Sequence[ToWorker] = (),
        polled: Callable[[list[FromWorker]], ToWorker | None] = lambda sent: None,
    ) -> None:
        self._waiting = list(waiting)
        self._polled = polled
        self.sent: list[FromWorker] = []
        self.waited_ms: list[int] = []
        self.looks = 0

    def send(self, message: FromWorker) -> None:
        self.sent.append(message)

    def receive(self, timeout_ms: int | None) -> ToWorker | None:
        if timeout_ms is None:
            if not self._waiting:
                raise ChannelClosed("the front is gone")

            return self._waiting.pop(0)

        if timeout_ms > 0:
            self.waited_ms.append(timeout_ms)
            return None

        self.looks += 1
        return self._polled(self.sent)

    @property
    def text(self) -> str:
        return "".join(message.text for message in self.sent if isinstance(message, Delta))

    @property
    def terminals(self) -> list[Terminal]:
        return [message for message in self.sent if isinstance(message, Terminal)]


def once(message: ToWorker, when: Callable[[list[FromWorker]], bool]) -> Callable[[list[FromWorker]], ToWorker | None]:
    """Return a `polled` that delivers the message one time, as soon as `when` holds."""
    waiting = [message]

    def polled(sent: list[FromWorker]) -> ToWorker | None:
        return waiting.pop() if waiting and when(sent) else None

    return polled
