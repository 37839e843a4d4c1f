"""POST /v1/completions for models of the Ollama daemon: each prompt as one user message. Called by the handler of completions.

Thinking stays text here, as for the server's own models: what the daemon tells apart is put between tags again.
"""

import contextlib
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
from aiohttp import web
from msgspec import UNSET

from prism.api.completion_request import CompletionRequest, prompts_of
from prism.api.generation_fields import wants_stream, wants_usage_chunk
from prism.api.generation_numbers import check_numbers, stop_strings
from prism.api.responses import Completion, CompletionChoice, Usage
from prism.chat.answer_pieces import AnswerPiece, ContentText
from prism.chat.reasoning_tags import THINK
from prism.http.chunks import TextEvents
from prism.http.model_names import OllamaModel
from prism.http.ollama_cut import note_if_cut
from prism.http.ollama_faults import Asked
from prism.http.services import SERVICES
from prism.http.sse import EventStream, open_event_stream
from prism.ollama.chat import ChatOutcome, ChatReply, open_chat
from prism.ollama.daemon import OllamaDaemon
from prism.ollama.requests import prompt_body
from prism.ollama.truncation import least_tokens


@dataclass(slots=True)
class _Text:
    """One answer as text. least_tokens: what its prompt has at the least."""

    reply: ChatReply
    least_tokens: int
    is_thinking: bool = False

    async def next(self) -> str:
        """Wait for more and return it, perhaps empty. Never called after the end. Raises OllamaError."""
        text = "".join(map(self._of_piece, await self.reply.next_pieces()))

        if self.reply.outcome is not None and self.is_thinking:
            self.is_thinking = False
            text += THINK.closing

        return text

    def _of_piece(self, piece: AnswerPiece) -> str:
        tag = ""

        if isinstance(piece, ContentText) == self.is_thinking:
            tag = THINK.closing if self.is_thinking else THINK.opening
            self.is_thinking = not self.is_thinking

        return tag + piece.text


async def ollama_completions(
    request: web.Request, completion: CompletionRequest, model: OllamaModel
) -> web.StreamResponse:
    """Handle one request. Cancelled by aiohttp when the client leaves: the block below ends, and with it the daemon's work."""
    services = request.app[SERVICES]
    check_numbers(completion, is_onnx=False)
    asked = Asked(model.name, "prompt")
    # In a thread of its own: long texts take some milliseconds a megabyte.
    prompts = await services.prompts.run(lambda: [(text, least_tokens((text,))) for text in prompts_of(completion)])

    with asked.told():
        async with contextlib.aclosing(_texts(services.ollama, completion, asked, prompts)) as texts:
            # What fails before the first line of the first answer has its status; later faults end the answer with an error.
            first = await anext(texts)
            everything = _Answer(completion, asked, _each(first, texts))

            if wants_stream(completion):
                return await everything.streamed(request, services.settings.sse_ping_s)

            return await everything.whole()


async def _texts(
    daemon: OllamaDaemon, completion: CompletionRequest, asked: Asked, prompts: Sequence[tuple[str, int]]
) -> AsyncGenerator[_Text, None]:
    for prompt, least in prompts:
        body = prompt_body(completion, asked.model, prompt)

        async with open_chat(daemon, body, stop_strings(completion), tags=False) as reply:
            yield _Text(reply, least)


async def _each(first: _Text, rest: AsyncIterator[_Text]) -> AsyncIterator[_Text]:
    yield first

    async for text in rest:
        yield text


class _Answer:
    """The answers to all prompts of a request, each a choice of its own."""

    def __init__(self, completion: CompletionRequest, asked: Asked, texts: AsyncIterator[_Text]) -> None:
        self._completion = completion
        self._asked = asked
        self._texts = texts
        self._outcomes: list[ChatOutcome] = []
        self._is_cut = False

    async def whole(self) -> web.Response:
        """Return all of it at once."""
        choices: list[CompletionChoice] = []

        async for text in self._texts:
            parts: list[str] = []

            while text.reply.outcome is None:
                parts.append(await text.next())

            outcome = self._note(text)
            choices.append(
                CompletionChoice(index=len(choices), text="".join(parts), finish_reason=_finish_reason(outcome))
            )

        answer = Completion(
            id=_new_id(),
            created=int(time.time()),
            model=self._completion.model,
            choices=choices,
            usage=_total_usage(self._outcomes) or UNSET,
            prompt_truncated=True if self._is_cut else UNSET,
        )
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    async def streamed(self, request: web.Request, ping_s: float) -> web.StreamResponse:
        """Send it piece by piece."""
        is_usage_wanted = wants_usage_chunk(self._completion)
        events = TextEvents(
            completion_id=_new_id(),
            created=int(time.time()),
            model=self._completion.model,
            is_usage_wanted=is_usage_wanted,
        )

        async with open_event_stream(request, {}, ping_s) as (response, stream):
            try:
                await self._stream_choices(events, stream)
            except ConnectionError:
                raise
            except Exception as error:
                await stream.write_error(self._asked.api_error(error))
            else:
                if is_usage_wanted and (usage := _total_usage(self._outcomes)) is not None:
                    await stream.write(events.usage(usage))

        return response

    async def _stream_choices(self, events: TextEvents, stream: EventStream) -> None:
        async for text in self._texts:
            index = len(self._outcomes)

            while text.reply.outcome is None:
                if fresh := await text.next():
                    await stream.write(events.text(index, fresh))

            outcome = self._note(text)
            await stream.write(events.finish(index, _finish_reason(outcome), is_prompt_cut=self._is_cut))

    def _note(self, text: _Text) -> ChatOutcome:
        outcome = text.reply.outcome
        assert outcome is not None
        self._outcomes.append(outcome)
        self._is_cut = note_if_cut(self._asked.model, text.least_tokens, outcome) or self._is_cut
        return outcome


def _finish_reason(outcome: ChatOutcome) -> Literal["stop", "length"]:
    # No tools were offered, so that no call can be the reason.
    return "length" if outcome.finish_reason == "length" else "stop"


def _total_usage(outcomes: Sequence[ChatOutcome]) -> Usage | None:
    """Return the counts of all answers together; None unless the daemon told those of each."""
    usages = [outcome.usage for outcome in outcomes if outcome.usage is not None]

    if len(usages) != len(outcomes):
        return None

    prompt_tokens = sum(usage.prompt_tokens for usage in usages)
    completion_tokens = sum(usage.completion_tokens for usage in usages)
    return Usage(
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        total_tokens=prompt_tokens + completion_tokens,
    )


def _new_id() -> str:
    return f"cmpl-{secrets.token_hex(12)}"
