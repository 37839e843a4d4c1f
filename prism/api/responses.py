"""The bodies of successful answers. Handlers fill them in, `msgspec.json.encode` writes them, `prism.api.openapi` publishes them. Pure.

A field that may be UNSET is left out of the JSON then; a field that may be None is written as null.
"""

from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls"]


class PromptTokensDetails(msgspec.Struct, frozen=True):
    """cached_tokens: tokens of the prompt whose KV was kept from an earlier request."""

    cached_tokens: int = 0


class CompletionTokensDetails(msgspec.Struct, frozen=True):
    """reasoning_tokens: generated tokens that were thinking."""

    reasoning_tokens: int = 0


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the model's own tokenizer. The details are left out for Ollama, which does not tell them."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails | UnsetType = UNSET
    completion_tokens_details: CompletionTokensDetails | UnsetType = UNSET


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """How fast an ONNX model answered. device: where it really ran, "cpu" or "cuda".

    stopped_by: why a `length` is no cap: the model said one thing over and over. Left out otherwise.
    """

    ttft_sec: float
    decode_tok_per_sec: float
    device: str
    stopped_by: Literal["loop_guard"] | UnsetType = UNSET


class AnsweredFunction(msgspec.Struct, frozen=True):
    """arguments: a JSON text."""

    name: str
    arguments: str


class AnsweredToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the model made."""

    id: str
    type: Literal["function"] = "function"
    function: AnsweredFunction


class AnswerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """content: null only when the answer is nothing but tool calls."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[AnsweredToolCall] | UnsetType = UNSET


class ChatChoice(msgspec.Struct, frozen=True, kw_only=True):
    """There is always one."""

    index: int = 0
    message: AnswerMessage
    finish_reason: FinishReason


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """model: the name that the client sent. created: seconds of the Unix epoch. prompt_truncated: Ollama read only a part of the prompt."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage | UnsetType = UNSET
    telemetry: Telemetry | UnsetType = UNSET
    prompt_truncated: Literal[True] | UnsetType = UNSET


class DeltaFunction(msgspec.Struct, frozen=True, kw_only=True):
    """name comes once, in the first delta of a call; arguments may span several."""

    name: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET


class DeltaToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """index tells the calls of one answer apart; id and type come once."""

    index: int
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET
    function: DeltaFunction


class ChatDelta(msgspec.Struct, frozen=True, kw_only=True):
    """What one event adds to the message. The first has role and an empty content; the last is empty."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[DeltaToolCall] | UnsetType = UNSET


class ChatChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    """finish_reason: null in every chunk but the last."""

    index: int = 0
    delta: ChatDelta
    finish_reason: FinishReason | None = None


class ChatChunk(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a stream. usage: null in all chunks but the last when counts were asked for, left out when not."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | UnsetType | None = UNSET
    telemetry: Telemetry | UnsetType = UNSET
    prompt_truncated: Literal[True] | UnsetType = UNSET


class CompletionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """index: number of the prompt. finish_reason: null in a stream until the last chunk of this choice."""

    index: int
    text: str
    finish_reason: Literal["stop", "length"] | None


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of the text endpoint, whole or one event of its stream."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | UnsetType | None = UNSET
    telemetry: Telemetry | UnsetType = UNSET
    prompt_truncated: Literal[True] | UnsetType = UNSET


class Embedding(msgspec.Struct, frozen=True, kw_only=True):
    """embedding: numbers, or base64 of little-endian 32-bit floats."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingsUsage(msgspec.Struct, frozen=True):
    """Ollama's count, 0 when it tells none."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(msgspec.Struct, frozen=True, kw_only=True):
    """One embedding for each input, in order."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingsUsage
