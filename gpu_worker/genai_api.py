"""The part of onnxruntime-genai that `engine.py` uses, as types; the library itself has none. Read off version 0.18.

Every call may raise RuntimeError, whatever went wrong, and holds the GIL until it returns.
"""

from collections.abc import Sequence
from typing import Protocol


class NativeIds(Protocol):
    """A numpy array of token ids. Its items are numpy integers."""

    def __getitem__(self, place: int) -> int: ...

    def tolist(self) -> list[int]: ...


class NativeConfig(Protocol):
    def clear_providers(self) -> None: ...

    def append_provider(self, name: str) -> None: ...

    def overlay(self, json_text: str) -> None: ...


class NativeModel(Protocol):
    @property
    def device_type(self) -> str: ...


class NativeTokenizer(Protocol):
    def encode(self, text: str) -> NativeIds: ...

    def decode(self, tokens: Sequence[int]) -> str: ...


class NativeGeneratorParams(Protocol):
    # The options are numbers and switches under the names of genai_config.json's `search`.
    def set_search_options(self, **options: float) -> None: ...


class NativeGenerator(Protocol):
    def append_tokens(self, tokens: Sequence[int]) -> None: ...

    def generate_next_token(self) -> None: ...

    def get_next_tokens(self) -> NativeIds: ...


class GenAi(Protocol):
    """The module."""

    @property
    def __version__(self) -> str: ...

    def Config(self, folder: str) -> NativeConfig: ...

    def Model(self, config: NativeConfig) -> NativeModel: ...

    def Tokenizer(self, model: NativeModel) -> NativeTokenizer: ...

    def GeneratorParams(self, model: NativeModel) -> NativeGeneratorParams: ...

    def Generator(self, model: NativeModel, params: NativeGeneratorParams) -> NativeGenerator: ...
