"""The part of onnxruntime-genai that `engine.py` uses, as types; the library itself has none. Read off version 0.18.

Every call may raise RuntimeError, whatever went wrong, and holds the GIL until it returns.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, SupportsInt


class NativeIds(Protocol):
    """A numpy array of token ids. Its items are numpy integers."""

    def __getitem__(self, place: int) -> int: ...

    def ravel(self) -> "NativeIds": ...

    def tolist(self) -> list[int]: ...


class NativeConfig(Protocol):
    def clear_providers(self) -> None: ...

    def append_provider(self, name: str) -> None: ...

    def overlay(self, json_text: str) -> None: ...


class NativeModel(Protocol):
    @property
    def device_type(self) -> str: ...

    # Raises for a model of a type that has no processor.
    def create_multimodal_processor(self) -> "NativeProcessor": ...


class NativeTensor(Protocol):
    def as_numpy(self) -> NativeIds: ...


class NativeInputs(Protocol):
    """Tensors by name: `input_ids`, and what goes with them."""

    def __getitem__(self, name: str) -> NativeTensor: ...

    def __delitem__(self, name: str) -> None: ...


class NativePictures(Protocol):
    """Picture files; nothing is decoded before a processor gets them."""


class NativePictureReader(Protocol):
    # Takes `bytes` and nothing else that holds bytes.
    def open_bytes(self, *files: bytes) -> NativePictures: ...


class NativeProcessor(Protocol):
    # A prompt that is a list is ignored without a word.
    def __call__(self, prompt: str, *, images: NativePictures) -> NativeInputs: ...


class NativeTokenizer(Protocol):
    def encode(self, text: str) -> NativeIds: ...

    def decode(self, tokens: Sequence[int]) -> str: ...


class NativeGeneratorParams(Protocol):
    # The options are numbers and switches under the names of genai_config.json's `search`.
    def set_search_options(self, **options: float) -> None: ...

    # Builds without constrained decoding may lack it, or take it and do nothing.
    def set_guidance(self, kind: str, text: str) -> None: ...


class NativeGenerator(Protocol):
    # On a generator that has begun it ignores pictures without a word.
    def set_inputs(self, inputs: NativeInputs) -> None: ...

    def append_tokens(self, tokens: Sequence[int]) -> None: ...

    def generate_next_token(self) -> None: ...

    def get_next_tokens(self) -> NativeIds: ...

    def token_count(self) -> int: ...

    def rewind_to(self, new_length: int) -> None: ...


class NativeTurnOptions(Protocol):
    """Options of one answer. Each setter may raise RuntimeError for a value out of range."""

    def set_do_sample(self, value: bool) -> None: ...  # noqa: FBT001  # the library takes no keywords

    def set_max_generated_tokens(self, value: int) -> None: ...

    def set_temperature(self, value: float) -> None: ...

    def set_top_p(self, value: float) -> None: ...

    def set_top_k(self, value: int) -> None: ...

    def set_seed(self, value: int) -> None: ...

    def set_repetition_penalty(self, value: float) -> None: ...

    def set_guidance(self, kind: str, text: str) -> None: ...


class NativeRequestOptions(Protocol):
    def set_max_session_tokens(self, value: int) -> None: ...


class NativeRequest(Protocol):
    """A sequence in the engine. Bound to the thread that made the engine; holds its place until `close`."""

    def begin_turn(self, tokens: Sequence[int], turn_options: NativeTurnOptions) -> int: ...

    def close(self) -> None: ...


class NativeUsage(Protocol):
    """A view into the buffer of events: gone with the next run."""

    @property
    def cached_prompt_tokens(self) -> int: ...


class NativeEvent(Protocol):
    @property
    def request(self) -> NativeRequest: ...

    @property
    def flags(self) -> SupportsInt: ...

    @property
    def token(self) -> int | None: ...

    @property
    def finish_reason(self) -> SupportsInt: ...

    @property
    def error_code(self) -> SupportsInt: ...

    @property
    def usage(self) -> NativeUsage | None: ...


class NativeEngine(Protocol):
    """Several sequences at once. Its owner is the thread that made it; `run` gives the GIL away while it works."""

    def create_request(self, *, options: NativeRequestOptions) -> NativeRequest: ...

    def create_event_buffer(self, capacity: int) -> object: ...

    def run(self, buffer: object) -> Iterable[NativeEvent]: ...

    def get_capabilities(self) -> "NativeCapabilities": ...


class NativeCapabilities(Protocol):
    @property
    def configured_max_batch_size(self) -> int: ...

    @property
    def max_request_length(self) -> int: ...


class EventFlags(Protocol):
    TOKEN: SupportsInt
    TURN_FINISHED: SupportsInt
    FAILED: SupportsInt


class EventReasons(Protocol):
    EOS: SupportsInt
    FAILED: SupportsInt


class GenAi(Protocol):
    """The module."""

    EngineEventFlags: EventFlags
    FinishReason: EventReasons

    @property
    def __version__(self) -> str: ...

    @property
    def Images(self) -> NativePictureReader: ...

    def Config(self, folder: str) -> NativeConfig: ...

    def Model(self, config: NativeConfig) -> NativeModel: ...

    def Tokenizer(self, model: NativeModel) -> NativeTokenizer: ...

    def GeneratorParams(self, model: NativeModel) -> NativeGeneratorParams: ...

    def Generator(self, model: NativeModel, params: NativeGeneratorParams) -> NativeGenerator: ...

    def Engine(self, model: NativeModel) -> NativeEngine: ...

    def RequestOptions(self) -> NativeRequestOptions: ...

    def TurnOptions(self, request: NativeRequest) -> NativeTurnOptions: ...
