"""One request from its prompt to its end. Made and run by `loop.py`; knows no particular engine.

Between two native calls it looks whether the front still wants the answer; that is all the concurrency there is.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from gpu_worker.engine_port import Engine, TokenSequence
from gpu_worker.errors import RequestFault
from gpu_worker.inbox import Channel, Inbox
from gpu_worker.loop_guard import LoopGuard
from gpu_worker.sampling import SearchOptions, search_options
from ipc.messages import Delta, Finished, FinishReason, Generate, Phase, Progress, RejectCode, Started

# How often a worker that makes tokens without text says so. The front takes silence for a hang only after many times that.
_SIGN_OF_LIFE_S = 1.0


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """prefill_chunk: most tokens of a prompt in one native call; 0 means all at once."""

    prefill_chunk: int
    has_loop_guard: bool


def slices(start: int, end: int, chunk: int) -> Iterator[tuple[int, int]]:
    """Yield the borders of the slices in which the tokens from start to end are fed."""
    step = chunk if chunk > 0 else max(end - start, 1)

    for first in range(start, end, step):
        yield first, min(first + step, end)


class Generation:
    """A request that is being served."""

    def __init__(
        self, request: Generate, engine: Engine, inbox: Inbox, channel: Channel, settings: GenerationSettings
    ) -> None:
        self._request = request
        self._engine = engine
        self._inbox = inbox
        self._channel = channel
        self._settings = settings
        self._eos_ids = engine.facts.eos_ids
        self._guard = LoopGuard() if settings.has_loop_guard else None
        self._taken_at = time.monotonic()
        self._first_token_at = self._taken_at
        self._last_token_at = self._taken_at
        self._said_at = self._taken_at
        self._completion_tokens = 0

    def run(self) -> Finished:
        """Serve the request and return its end, which is not sent yet.

        Raises RequestFault before anything was said, EngineFault at any time, and the channel's errors.
        """
        prompt_ids = self._engine.encode(self._request.prompt)
        max_tokens = self._room(len(prompt_ids))
        options = self._options(len(prompt_ids) + max_tokens)
        self._channel.send(
            Started(request_id=self._request.request_id, prompt_tokens=len(prompt_ids), max_tokens=max_tokens)
        )
        sequence = self._engine.start(prompt_ids, options)

        try:
            is_fed = self._prefill(sequence, prompt_ids)
            reason = self._decode(sequence, prompt_ids, max_tokens) if is_fed else FinishReason.CANCELLED
            return self._finished(reason, len(prompt_ids), sequence.cached_tokens)
        finally:
            sequence.close()

    def _room(self, prompt_tokens: int) -> int:
        """Return how many tokens the answer may have."""
        if self._request.max_tokens < 1:
            raise RequestFault(
                RejectCode.INVALID_REQUEST, f"max_tokens must be at least 1, not {self._request.max_tokens}"
            )

        window = self._engine.facts.context_length

        if window is None:
            return self._request.max_tokens

        if prompt_tokens >= window:
            raise RequestFault(
                RejectCode.CONTEXT_LENGTH_EXCEEDED,
                # LangChain and LiteLLM know this error by these words.
                f"the prompt is too long: it has {prompt_tokens} tokens, and this model's maximum context length is "
                f"{window} tokens, answer included",
            )

        return min(self._request.max_tokens, window - prompt_tokens)

    def _options(self, max_length: int) -> SearchOptions:
        facts = self._engine.facts
        return search_options(
            self._request.sampling,
            max_length=max_length,
            model_top_k=facts.top_k,
            vocabulary_size=facts.vocabulary_size,
        )

    def _prefill(self, sequence: TokenSequence, prompt_ids: list[int]) -> bool:
        """Feed the prompt; False when it was cancelled on the way."""
        total = len(prompt_ids)

        for first, end in slices(sequence.cached_tokens, total, self._settings.prefill_chunk):
            if self._inbox.is_cancelled():
                return False

            self._channel.send(
                Progress(phase=Phase.PREFILL, request_id=self._request.request_id, done=first, total=total)
            )
            sequence.feed(prompt_ids[first:end])

        return True

    def _decode(self, sequence: TokenSequence, prompt_ids: list[int], max_tokens: int) -> FinishReason:
        """Generate and send until something ends the answer."""
        detokenizer = self._engine.detokenizer(prompt_ids)
        reason = FinishReason.LENGTH

        while self._completion_tokens < max_tokens:
            if self._inbox.is_cancelled():
                reason = FinishReason.CANCELLED
                break

            token = sequence.step()
            self._count_token()

            # Looked at before the count: an end that comes with the last token allowed is an end.
            if token in self._eos_ids:
                reason = FinishReason.STOP
                break

            self._say(detokenizer.push(token))
            self._give_sign_of_life(max_tokens)

            if self._guard is not None and self._guard.sees_loop(token):
                reason = FinishReason.LOOP
                break

        self._say(detokenizer.flush())
        return reason

    def _count_token(self) -> None:
        self._completion_tokens += 1
        self._last_token_at = time.monotonic()

        if self._completion_tokens == 1:
            self._first_token_at = self._last_token_at

    def _give_sign_of_life(self, max_tokens: int) -> None:
        """Tokens without text (half characters, hidden markers) are progress too."""
        if self._last_token_at - self._said_at >= _SIGN_OF_LIFE_S:
            self._said_at = self._last_token_at
            self._channel.send(
                Progress(
                    phase=Phase.DECODE,
                    request_id=self._request.request_id,
                    done=self._completion_tokens,
                    total=max_tokens,
                )
            )

    def _say(self, text: str) -> None:
        if text:
            self._said_at = self._last_token_at
            self._channel.send(
                Delta(request_id=self._request.request_id, text=text, completion_tokens=self._completion_tokens)
            )

    def _finished(self, reason: FinishReason, prompt_tokens: int, cached_tokens: int) -> Finished:
        decode_sec = self._last_token_at - self._first_token_at
        later_tokens = self._completion_tokens - 1

        return Finished(
            request_id=self._request.request_id,
            reason=reason,
            prompt_tokens=prompt_tokens,
            completion_tokens=self._completion_tokens,
            cached_tokens=cached_tokens,
            ttft_sec=self._first_token_at - self._taken_at,
            decode_tok_per_sec=later_tokens / decode_sec if later_tokens > 0 and decode_sec > 0 else 0.0,
        )
