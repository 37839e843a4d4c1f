"""What the rest of the worker asks of an engine. `engine.py` answers with ONNX Runtime GenAI; tests answer with a script of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gpu_worker.detokenizer import Detokenizer
from gpu_worker.genai_api import NativeInputs
from gpu_worker.sampling import SearchOptions
from ipc.messages import Device, PrefixReuse


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What is true of a loaded model for life.

    fallback_reason: why it is on the CPU although CUDA would have been preferred.
    context_length: None when the model's files do not say.
    top_k: the model's own; None when its files do not say.
    parallel: how many sequences it works on at the same time.
    sees: it takes pictures. wants_one_size: all pictures of a prompt must be of the same size.
    """

    device: Device
    fallback_reason: str | None
    engine_version: str
    context_length: int | None
    vocabulary_size: int | None
    top_k: int | None
    eos_ids: frozenset[int]
    parallel: int = 1
    sees: bool = False
    wants_one_size: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """png: a file that can be trusted. marker: the text that stands for it in the prompt. field: of the client's request."""

    png: bytes
    marker: str
    field: str


@dataclass(frozen=True, slots=True)
class ShownPictures:
    """The pictures of a prompt, as the engine takes them.

    head_tokens: so many of the prompt's first tokens must be fed at once, after the tensors: they reach to the last one of a picture.
    """

    tensors: NativeInputs
    head_tokens: int


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """A prompt as the engine takes it.

    pictures: None when there are none. The ids of two prompts with different pictures may be the same: what is kept of a prompt with
    pictures, or of any before it, must never serve another one.
    """

    ids: list[int]
    pictures: ShownPictures | None = None


class TokenSequence(Protocol):
    """One prompt and the answer that grows after it. Every method may raise EngineFault."""

    @property
    def cached_tokens(self) -> int:
        """How many tokens of the prompt the engine knew already; they need not be fed."""

    def show(self, tensors: NativeInputs) -> None:
        """Take what goes with the first tokens of a prompt with pictures, before any token is fed and only then."""

    def feed(self, tokens: Sequence[int]) -> None:
        """Take a slice of the prompt. Blocks for a forward pass, holding the GIL."""

    def step(self) -> int:
        """Return the next token. Blocks for a forward pass, holding the GIL. Raises RequestFault when a constraint is too much work."""

    def keep(self) -> None:
        """End this sequence and let later requests continue from it, as far as the engine can. Not called after a fault."""

    def close(self) -> None:
        """End this sequence and give its memory back. Safe to call twice; without effect after `keep`."""


class Engine(Protocol):
    """A loaded model."""

    @property
    def facts(self) -> EngineFacts: ...

    def encode(self, pieces: Sequence[str]) -> list[int]:
        """Return the ids of a prompt. Raises RequestFault for a prompt that cannot be encoded."""

    def read(self, pieces: Sequence[str], pictures: Sequence[Picture]) -> ReadPrompt:
        """Return a prompt with pictures, in the order of their markers. Raises RequestFault and EngineFault."""

    def detokenizer(self, prompt_ids: Sequence[int]) -> Detokenizer:
        """Return what turns the answer to this prompt into text."""

    def start(
        self, prompt_ids: Sequence[int], options: SearchOptions, reuse: PrefixReuse | None = None
    ) -> TokenSequence:
        """Begin a sequence; nothing is fed yet. Raises RequestFault for a constraint that cannot be kept, and EngineFault.

        reuse: what it may continue from and be kept for; None: it has to do with no other.
        """

    def forget_expired(self) -> float | None:
        """Free what was kept for long enough. Return in how many seconds to ask again; None when nothing is kept."""
