"""Every message that crosses between the front and a worker, and nothing else.

Downwards (`ToWorker`): `Generate`, `Cancel`. Upwards (`FromWorker`): one `Hello`, any number of `Progress`, one `Loaded` or `LoadFailed`;
then for each `Generate` either one `Rejected`, or one `Started`, any number of `Delta`, and one `Finished`, `Failed` or `Rejected`.
`Rejected`, `Finished` and `Failed` are terminal: exactly one of them ends a request, and nothing about that request follows it.
There is no load message (a worker has one model for life, named in its launch spec) and no stop message (stop is a signal).
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec


class Device(StrEnum):
    """Where a model really runs."""

    CPU = "cpu"
    CUDA = "cuda"


class DeviceChoice(StrEnum):
    """Where the operator wants a model to run. AUTO tries CUDA and falls back to the CPU with a reason."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class FinishReason(StrEnum):
    """Why a generation ended without a fault."""

    STOP = "stop"  # the model ended its answer (an end-of-sequence token)
    LENGTH = "length"  # max_tokens or the window is used up
    LOOP = "loop"  # the loop guard saw a token cycle; told to clients as "length"
    CANCELLED = "cancelled"  # a Cancel was honoured


class RejectCode(StrEnum):
    """Why the worker would not begin a request. The worker is fine; the request is at fault."""

    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    INVALID_REQUEST = "invalid_request"
    GUIDANCE_REFUSED = "guidance_refused"  # the grammar cannot be compiled, or is too much work for the engine
    GUIDANCE_UNSUPPORTED = "guidance_unsupported"  # the engine, or the model's tokenizer, knows no constraints
    IMAGE_REFUSED = "image_refused"  # a picture cannot be decoded, or is past a bound


class FailCode(StrEnum):
    """Why a generation broke after it began."""

    ENGINE_ERROR = "engine_error"  # the engine raised
    OUT_OF_MEMORY = "out_of_memory"  # host or device memory ran out; the worker must be recycled


class LoadFailCode(StrEnum):
    """Why a model could not be loaded."""

    BAD_MODEL = "bad_model"  # the folder is at fault; trying again changes nothing until the folder changes
    DEVICE_UNAVAILABLE = "device_unavailable"  # the device that was asked for cannot be used
    OUT_OF_MEMORY = "out_of_memory"
    ENGINE_MISSING = "engine_missing"  # onnxruntime-genai is not installed
    OTHER = "other"


class Phase(StrEnum):
    """What the worker is about to do when it says Progress."""

    IMPORT = "import"  # load the engine's libraries
    LOAD = "load"  # read the model
    PICTURES = "pictures"  # decode a picture of the prompt
    LOOK = "look"  # feed the part of the prompt that has the pictures in it
    PREFILL = "prefill"  # feed a slice of the prompt
    DECODE = "decode"  # make tokens that give no text yet; said about once a second while no Delta is


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How the next token is chosen.

    temperature: 0 means greedy, and then top_p, top_k and seed have no effect.
    top_p: 0 < top_p <= 1.
    top_k: None means the model's own `search.top_k` when that is above 1, else 40.
    repetition_penalty: > 0; None means the model's own.
    seed: None means a fresh one for each request.
    """

    temperature: float = 0.1
    top_p: float = 0.9
    top_k: int | None = None
    repetition_penalty: float | None = None
    seed: int | None = None


class GuidanceKind(StrEnum):
    """The language in which a constraint is written; the engine's own words."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark_grammar"


class Guidance(msgspec.Struct, frozen=True):
    """What the answer must be: every token that would lead out of it is masked."""

    kind: GuidanceKind
    text: str


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """A picture of the prompt, in the file format in which the client sent it (PNG, JPEG, GIF or WebP): not decoded, not trusted.

    field: the path in the client's request, for errors.
    marker: the text that stands for it in the prompt, whole in one piece. Several pictures may have the same one: they are in order.
    is_low_detail: the client wants as few tokens spent on it as possible.
    """

    data: bytes
    field: str
    marker: str
    is_low_detail: bool = False


class PrefixReuse(msgspec.Struct, frozen=True, kw_only=True):
    """Which kept prefixes a request may continue from, and how long its own is kept.

    scope: requests of different scopes (API keys) never share anything.
    conversation: names the conversation to continue; None leaves it to the longest common prefix within the scope.
    ttl_s: how long this request's prefix may be kept; None means the worker's own bound.
    """

    scope: str = ""
    conversation: str | None = None
    ttl_s: int | None = None


class GenerationTask(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is asked to generate.

    prompt: the rendered prompt in pieces. Each piece is encoded by itself and the ids are joined, so a control token's text that a
        client typed (`<|im_end|>`) stays text when the border of two pieces goes through it. Empty pieces are allowed; all empty is not.
    max_tokens: upper bound of generated tokens, >= 1; the worker caps it to the room that the prompt leaves in the window.
    guidance: None leaves the answer free.
    images: in the order of their markers in the prompt; only for a model that can see.
    reuse: what may be shared with other requests; by default all of them are of one scope.
    """

    prompt: tuple[str, ...]
    max_tokens: int
    sampling: Sampling
    guidance: Guidance | None = None
    images: tuple[Image, ...] = ()
    reuse: PrefixReuse = PrefixReuse()

    def identity(self) -> tuple[str | bytes, ...]:
        """Return what makes the engine work as it does on this task: all but how long and how random the answer is."""
        guidance = () if self.guidance is None else (f"{self.guidance.kind}:".encode() + self.guidance.text.encode(),)
        return (*self.prompt, *guidance, *(image.data for image in self.images))


class Generate(GenerationTask, frozen=True, kw_only=True, tag="generate"):
    """Begin a request. The worker must have a free place (`Loaded.parallel`)."""

    request_id: int

    @staticmethod
    def of(request_id: int, task: GenerationTask) -> "Generate":
        """Return the message that begins this task."""
        fields = {name: getattr(task, name) for name in GenerationTask.__struct_fields__}
        return Generate(request_id=request_id, **fields)


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Stop this request at the next slice or token. Unknown or ended ids are ignored: the Cancel crossed the end on its way."""

    request_id: int


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """The first message. Proves by the secret of the launch spec that the sender is the process that was started."""

    secret: bytes
    generation: int
    pid: int
    version: str


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """Said before each native call that may be long. done and total are counted in units of the phase (tokens when prefilling)."""

    phase: Phase
    request_id: int = 0
    done: int = 0
    total: int = 0


class Loaded(msgspec.Struct, frozen=True, kw_only=True, tag="loaded"):
    """The model is ready.

    fallback_reason: why the CPU is used although AUTO would have preferred CUDA; None when there was nothing to fall back from.
    context_length: tokens in the window, prompt and answer together; None when the model's files do not say.
    parallel: how many requests it works on at the same time; the front sends no more.
    """

    device: Device
    fallback_reason: str | None
    context_length: int | None
    load_sec: float
    engine_version: str
    parallel: int = 1


class LoadFailed(msgspec.Struct, frozen=True, kw_only=True, tag="load_failed"):
    """The model cannot be loaded; the worker exits after saying so."""

    code: LoadFailCode
    message: str


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """The prompt is encoded and fits; prefilling begins. max_tokens is the bound after capping to the window."""

    request_id: int
    prompt_tokens: int
    max_tokens: int


class Delta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="delta"):
    """A piece of the answer, in order. text is never empty and never ends inside a character.

    completion_tokens: how many tokens were generated up to here, this piece included.
    cached_tokens: in the first piece, the tokens of the prompt that were kept from an earlier request.
    """

    request_id: int
    text: str
    completion_tokens: int
    cached_tokens: int = 0


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """The request ended without a fault; all its text was sent before.

    completion_tokens counts every generated token, an end-of-sequence token included.
    ttft_sec: from taking the request to its first token; 0 when there was none.
    decode_tok_per_sec: (n - 1) tokens over the time from the first to the last token; 0 when n < 2.
    """

    request_id: int
    reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    ttft_sec: float
    decode_tok_per_sec: float


class Rejected(msgspec.Struct, frozen=True, kw_only=True, tag="rejected"):
    """The request cannot be served by this model. Nothing was generated, but for a constraint that turns out to be too much on the way.

    field: of the client's request, when one is at fault.
    """

    request_id: int
    code: RejectCode
    message: str
    field: str | None = None


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The request broke. is_fatal: the worker cannot be trusted any more and must be recycled."""

    request_id: int
    code: FailCode
    message: str
    is_fatal: bool


ToWorker: TypeAlias = Generate | Cancel
FromWorker: TypeAlias = Hello | Progress | Loaded | LoadFailed | Started | Delta | Finished | Rejected | Failed
Terminal: TypeAlias = Finished | Rejected | Failed
RequestMessage: TypeAlias = Started | Delta | Finished | Rejected | Failed
