"""One request from its prompt to its end: what is told to the front about what the batch makes. Made and driven by `loop.py`.

Knows no particular engine, and never waits: the loop brings it what a step has made.
"""

import time
from dataclasses import dataclass
from typing import assert_never

from gpu_worker.batch import Batch, Broke, Ended, Event, Fed, Made
from gpu_worker.engine_port import Engine, ReadPrompt, ShownPictures
from gpu_worker.errors import RequestFault
from gpu_worker.inbox import Channel
from gpu_worker.loop_guard import LoopGuard
from gpu_worker.prompt_reading import PromptReader
from gpu_worker.sampling import SearchOptions, search_options
from ipc.messages import (
    Delta,
    Finished,
    FinishReason,
    Generate,
    GenerationTask,
    Phase,
    PrefixReuse,
    Progress,
    RejectCode,
    Started,
)

# How often a worker that makes tokens without text says so. The front takes silence for a hang only after many times that.
_SIGN_OF_LIFE_S = 1.0


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """has_loop_guard: end an answer that repeats one cycle of tokens for ever."""

    has_loop_guard: bool


def reuse_of(task: GenerationTask) -> PrefixReuse | None:
    """Return what the task may share with others; None for one whose answer hangs on more than the tokens before it.

    A kept sequence goes on with its own random numbers, so a seed needs a new one. It knows neither grammars nor pictures.
    """
    has_seed = task.sampling.seed is not None and task.sampling.temperature > 0
    return None if has_seed or task.guidance is not None or task.images else task.reuse


class Generation:
    """A request that is being served."""

    def __init__(
        self, request: Generate, engine: Engine, batch: Batch, channel: Channel, settings: GenerationSettings
    ) -> None:
        self.request = request
        self._engine = engine
        self._batch = batch
        self._channel = channel
        self._eos_ids = engine.facts.eos_ids
        self._guard = LoopGuard() if settings.has_loop_guard else None
        self._taken_at = time.monotonic()
        self._first_token_at = self._taken_at
        self._last_token_at = self._taken_at
        self._said_at = self._taken_at
        self._completion_tokens = 0
        self._has_spoken = False
        self._prompt_tokens = 0
        self._max_tokens = 0
        self._reader = PromptReader(request, engine, channel)
        self.has_joined = False

    def begin(self) -> None:
        """Do one piece of what comes first; the last piece is to join the batch, and `has_joined` tells that it was.

        Raises RequestFault before anything was said, EngineFault and the channel's errors at any time.
        """
        prompt = self._reader.read_on()

        if prompt is None:
            return

        self.has_joined = True
        self._prompt_tokens = len(prompt.ids)
        self._max_tokens = self._room(len(prompt.ids))
        options = self._options(len(prompt.ids) + self._max_tokens)
        # Before the word that it began: what can never be served, a constraint that cannot be kept for one, is found here.
        done = self._join(prompt, options)
        self._channel.send(
            Started(request_id=self.request.request_id, prompt_tokens=self._prompt_tokens, max_tokens=self._max_tokens)
        )
        self._detokenizer = self._engine.detokenizer(prompt.ids)
        self._say_fed(done, prompt.pictures)

    def _join(self, prompt: ReadPrompt, options: SearchOptions) -> int:
        return self._batch.join(self.request.request_id, prompt.ids, options, prompt.pictures, reuse_of(self.request))

    def take(self, event: Event) -> FinishReason | None:
        """Tell the front what a step made; return why the answer is over, when it is. Raises the fault of a sequence that broke."""
        match event:
            case Fed(done=done):
                self._say_fed(done)
                return None
            case Made(token=token):
                return self._take_token(token)
            case Ended():
                self._count_token()
                return FinishReason.STOP
            case Broke(fault=fault):
                raise fault
            case _:
                assert_never(event)

    def finish(self, reason: FinishReason) -> Finished:
        """Say the text that is left and return the end, which is not sent yet. The sequence is still in the batch."""
        if self._completion_tokens:
            self._say(self._detokenizer.flush())

        decode_sec = self._last_token_at - self._first_token_at
        later_tokens = self._completion_tokens - 1

        return Finished(
            request_id=self.request.request_id,
            reason=reason,
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            cached_tokens=self._batch.cached_tokens(self.request.request_id),
            ttft_sec=self._first_token_at - self._taken_at,
            decode_tok_per_sec=later_tokens / decode_sec if later_tokens > 0 and decode_sec > 0 else 0.0,
        )

    def _room(self, prompt_tokens: int) -> int:
        """Return how many tokens the answer may have."""
        if self.request.max_tokens < 1:
            raise RequestFault(
                RejectCode.INVALID_REQUEST, f"max_tokens must be at least 1, not {self.request.max_tokens}"
            )

        window = self._engine.facts.context_length

        if window is None:
            return self.request.max_tokens

        if prompt_tokens >= window:
            raise RequestFault(
                RejectCode.CONTEXT_LENGTH_EXCEEDED,
                # LangChain and LiteLLM know this error by these words.
                f"the prompt is too long: it has {prompt_tokens} tokens, and this model's maximum context length is "
                f"{window} tokens, answer included",
            )

        return min(self.request.max_tokens, window - prompt_tokens)

    def _options(self, max_length: int) -> SearchOptions:
        facts = self._engine.facts
        return search_options(
            self.request.sampling,
            max_length=max_length,
            model_top_k=facts.top_k,
            vocabulary_size=facts.vocabulary_size,
            guidance=self.request.guidance,
        )

    def _say_fed(self, done: int, pictures: ShownPictures | None = None) -> None:
        """Say how far the prompt is, before the next slice may take long. pictures: they are in that slice."""
        phase, total = (Phase.PREFILL, self._prompt_tokens) if pictures is None else (Phase.LOOK, pictures.head_tokens)

        if done < total:
            self._channel.send(Progress(phase=phase, request_id=self.request.request_id, done=done, total=total))

    def _take_token(self, token: int) -> FinishReason | None:
        self._count_token()

        # Looked at before the count: an end that comes with the last token allowed is an end.
        if token in self._eos_ids:
            return FinishReason.STOP

        self._say(self._detokenizer.push(token))
        self._give_sign_of_life()

        if self._guard is not None and self._guard.sees_loop(token):
            return FinishReason.LOOP

        return FinishReason.LENGTH if self._completion_tokens >= self._max_tokens else None

    def _count_token(self) -> None:
        self._completion_tokens += 1
        self._last_token_at = time.monotonic()

        if self._completion_tokens == 1:
            self._first_token_at = self._last_token_at

    def _give_sign_of_life(self) -> None:
        """Tokens without text (half characters, hidden markers) are progress too."""
        if self._last_token_at - self._said_at >= _SIGN_OF_LIFE_S:
            self._said_at = self._last_token_at
            self._channel.send(
                Progress(
                    phase=Phase.DECODE,
                    request_id=self.request.request_id,
                    done=self._completion_tokens,
                    total=self._max_tokens,
                )
            )

    def _say(self, text: str) -> None:
        if not text:
            return

        self._said_at = self._last_token_at
        # Told with the first text, which every reader of the answer waits for: a stop string may make it the only one.
        cached_tokens = 0 if self._has_spoken else self._batch.cached_tokens(self.request.request_id)
        self._has_spoken = True
        self._channel.send(
            Delta(
                request_id=self.request.request_id,
                text=text,
                completion_tokens=self._completion_tokens,
                cached_tokens=cached_tokens,
            )
        )
