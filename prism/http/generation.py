"""One generation on its way to the client: the worker's messages in, pieces of the answer and its figures out.

Shared by all endpoints that generate, streamed or not, so that both ways see the same pieces.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import UNSET

from ipc.messages import Delta, Finished, FinishReason, GenerationTask, Started
from prism.api.errors import ApiError
from prism.api.refusals import context_length_exceeded, invalid_request, unsupported_parameter
from prism.api.responses import CompletionTokensDetails, PromptTokensDetails, Telemetry, Usage
from prism.chat.answer import AnswerPipeline, FinishedAnswer
from prism.chat.answer_pieces import AnswerPiece
from prism.chat.finish_reason import OpenAiFinishReason, openai_finish_reason
from supervisor.errors import ContextLengthExceeded, GuidanceRefused, GuidanceUnsupported, SupervisorError
from supervisor.request_stream import Answer, RequestStream

# Of most languages and tokenizers; fewer characters only cost a bound that is too high.
_CHARACTERS_PER_TOKEN = 3
# From 256 for some families whatever the picture, up to 3,000 for the largest that is shown to others.
_TOKENS_OF_IMAGE = 1_500
_TOKENS_OF_LOW_DETAIL = 400
# What has piled up for a client that reads slowly goes out in writes of about this many tokens, not in one of the whole rest.
_MOST_PIECES = 256


def likely_tokens(task: GenerationTask) -> int:
    """Return about how many tokens a request takes, prompt and answer, for the memory that its model needs."""
    images = sum(_TOKENS_OF_LOW_DETAIL if image.is_low_detail else _TOKENS_OF_IMAGE for image in task.images)
    return sum(map(len, task.prompt)) // _CHARACTERS_PER_TOKEN + images + task.max_tokens


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a generation ended."""

    answer: FinishedAnswer
    finish_reason: OpenAiFinishReason
    usage: Usage
    telemetry: Telemetry


class Generation:
    """Reads a stream of the worker through a pipeline.

    device: where the model runs, for the telemetry. prompt_field: the field of the request that a prompt which is too long came from.
    constraint_field: the one that asks for a constraint on the answer; None when there is none.
    """

    def __init__(
        self,
        stream: RequestStream,
        pipeline: AnswerPipeline,
        device: str,
        prompt_field: str,
        constraint_field: str | None = None,
    ) -> None:
        self._prompt_field = prompt_field
        self._constraint_field = constraint_field
        self._stream = stream
        self._pipeline = pipeline
        self._device = device
        self._prompt_tokens = 0
        self._cached_tokens = 0
        self._completion_tokens = 0
        self._begun_at = time.monotonic()
        self._first_at: float | None = None
        self._last_at = 0.0
        self._fault: SupervisorError | None = None
        self.outcome: Outcome | None = None

    async def wait_started(self) -> None:
        """Wait until the prompt is known to fit. Raises the error that ends the request instead."""
        try:
            message = await self._stream.receive()
        except ContextLengthExceeded as error:
            raise context_length_exceeded(str(error), self._prompt_field) from error
        except (GuidanceRefused, GuidanceUnsupported) as error:
            raise self._constraint_error(error) from error

        assert isinstance(message, Started)
        self._prompt_tokens = message.prompt_tokens

    async def next_pieces(self) -> Sequence[AnswerPiece]:
        """Wait for text and return what is there; empty when only the end has come. Never called after the end.

        Several tokens that are ready come together, so that they share one write. Raises the error that ends the request, after the text
        that came before it was returned.
        """
        try:
            return await self._next_pieces()
        except GuidanceRefused as error:
            raise self._constraint_error(error) from error

    async def _next_pieces(self) -> Sequence[AnswerPiece]:
        if self._fault is not None:
            raise self._fault

        pieces: list[AnswerPiece] = []
        message: Answer | None = await self._stream.receive()

        while message is not None:
            self._take(message, pieces)

            if self.outcome is not None or len(pieces) >= _MOST_PIECES:
                break

            try:
                message = self._stream.receive_ready()
            except SupervisorError as fault:
                self._fault = fault
                break

        return pieces

    def _constraint_error(self, error: SupervisorError) -> ApiError:
        field = self._constraint_field or "response_format"

        if isinstance(error, GuidanceUnsupported):
            return unsupported_parameter(field, f"'{field}' is not supported with this model: {error}.")

        return invalid_request(f"'{field}' cannot be enforced: {error}.", field)

    def _take(self, message: Answer, pieces: list[AnswerPiece]) -> None:
        match message:
            case Delta():
                self._last_at = time.monotonic()
                self._first_at = self._first_at or self._last_at
                self._completion_tokens = message.completion_tokens
                self._cached_tokens = self._cached_tokens or message.cached_tokens
                pieces.extend(self._pipeline.feed(message.text, message.completion_tokens))

                if self._pipeline.is_stopped:
                    # The end of the worker is not waited for: it would only tell that it stopped because we say so.
                    self._finish(FinishReason.STOP, pieces, self._own_telemetry())
            case Finished():
                self._completion_tokens = message.completion_tokens
                self._cached_tokens = message.cached_tokens
                telemetry = self._telemetry(message.ttft_sec, message.decode_tok_per_sec, message.reason)
                self._finish(message.reason, pieces, telemetry)
            case Started():
                self._prompt_tokens = message.prompt_tokens

    def _finish(self, reason: FinishReason, pieces: list[AnswerPiece], telemetry: Telemetry) -> None:
        answer = self._pipeline.finish()
        pieces.extend(answer.pieces)
        finish_reason = openai_finish_reason(
            reason, is_stopped=answer.is_stopped, has_calls=bool(answer.calls), is_call_cut=answer.is_call_cut
        )
        usage = self._usage(answer.reasoning_tokens)
        self.outcome = Outcome(answer, finish_reason, usage, telemetry)

    def _usage(self, reasoning_tokens: int) -> Usage:
        return Usage(
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            total_tokens=self._prompt_tokens + self._completion_tokens,
            prompt_tokens_details=PromptTokensDetails(self._cached_tokens),
            completion_tokens_details=CompletionTokensDetails(reasoning_tokens),
        )

    def _own_telemetry(self) -> Telemetry:
        """Times as seen from here, for an answer that we ended."""
        first_at = self._first_at or self._last_at
        seconds = self._last_at - first_at
        rate = (self._completion_tokens - 1) / seconds if seconds > 0 else 0.0
        return self._telemetry(first_at - self._begun_at, rate, FinishReason.STOP)

    def _telemetry(self, ttft_sec: float, decode_tok_per_sec: float, reason: FinishReason) -> Telemetry:
        return Telemetry(
            ttft_sec=round(ttft_sec, 4),
            decode_tok_per_sec=round(decode_tok_per_sec, 1),
            device=self._device,
            stopped_by="loop_guard" if reason is FinishReason.LOOP else UNSET,
        )
