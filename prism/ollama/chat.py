"""One answer of the Ollama daemon on its way to a client: its lines in, pieces of the answer and its figures out.

Shared by the handlers of chats and completions, streamed or not, so that all see the same. Stop strings are the daemon's work; they are
looked for here once more, because some of its engines let them through. Calls come complete, and are told at the end.
"""

import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import msgspec

from ipc.messages import FinishReason
from prism.api.responses import Usage
from prism.chat.answer import AnswerPipeline
from prism.chat.answer_pieces import AnswerPiece, ReasoningText
from prism.chat.finish_reason import OpenAiFinishReason, openai_finish_reason
from prism.chat.reasoning import ReasoningSplitter
from prism.chat.tool_call_values import ToolCall
from prism.ollama.daemon import DaemonAnswer, OllamaDaemon
from prism.ollama.errors import DaemonCutShort, DaemonRefused
from prism.ollama.requests import Body, bodies_to_try
from prism.ollama.wire import Call, ChatLine, Message, arguments_text, decoded

_CHAT = "/api/chat"
_LINE = msgspec.json.Decoder(ChatLine)


@dataclass(frozen=True, slots=True)
class ChatOutcome:
    """How an answer ended.

    content: None if there is none beside calls. reasoning: None if there is none. usage: None when the daemon did not tell both counts, or
    was left before it could. prompt_tokens: as it told them.
    """

    content: str | None
    reasoning: str | None
    calls: tuple[ToolCall, ...]
    finish_reason: OpenAiFinishReason
    usage: Usage | None
    prompt_tokens: int | None


class ChatReply:
    """Reads the lines of one answer. stops: stop strings. tags: whether thinking between tags is to be told apart from the content."""

    def __init__(self, answer: DaemonAnswer, stops: Sequence[str], *, tags: bool) -> None:
        self._answer = answer
        self._stops = stops
        self._has_tags = tags
        self._pipeline: AnswerPipeline | None = None
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []
        self._begun: list[bytes] = []
        self.outcome: ChatOutcome | None = None

    async def wait_begun(self) -> None:
        """Wait for the first line. Raises the OllamaError that ends the request instead, while it can still be told with a status."""
        self._begun = await self._next_lines()
        decoded(self._begun[0], _LINE)

    async def next_pieces(self) -> Sequence[AnswerPiece]:
        """Wait for lines and return the text of all that are there, perhaps none. Never called after the end.

        Raises OllamaError after the text that came before it was returned, but for what came with it at once.
        """
        lines, self._begun = self._begun or await self._next_lines(), []
        pieces: list[AnswerPiece] = []

        for number, line in enumerate(lines):
            try:
                self._take(decoded(line, _LINE), pieces)
            except Exception:
                if not pieces:
                    raise

                # Found again at the next call, behind the text that was good.
                self._begun = lines[number:]
                break

            if self.outcome is not None:
                break

        return pieces

    async def _next_lines(self) -> list[bytes]:
        lines = await self._answer.next_lines()

        if not lines:
            raise DaemonCutShort("the connection ended before its answer did")

        return lines

    def _take(self, line: ChatLine, pieces: list[AnswerPiece]) -> None:
        if line.message is not None:
            self._take_message(line.message, pieces)

        if self._pipeline is not None and self._pipeline.is_stopped:
            self._finish(ChatLine(), pieces)
        elif line.done:
            self._finish(line, pieces)

    def _take_message(self, message: Message, pieces: list[AnswerPiece]) -> None:
        if message.thinking:
            self._reasoning.append(message.thinking)
            pieces.append(ReasoningText(message.thinking))

        if message.content:
            self._take_text(self._content_pipeline().feed(message.content, 0), pieces)

        self._calls.extend(map(_as_call, message.tool_calls or ()))

    def _take_text(self, fresh: Sequence[AnswerPiece], pieces: list[AnswerPiece]) -> None:
        self._reasoning.extend(piece.text for piece in fresh if isinstance(piece, ReasoningText))
        pieces.extend(fresh)

    def _content_pipeline(self) -> AnswerPipeline:
        if self._pipeline is None:
            # A daemon that tells thinking apart itself leaves no tags of it in the content.
            splitter = ReasoningSplitter() if self._has_tags and not self._reasoning else None
            self._pipeline = AnswerPipeline(stops=self._stops, splitter=splitter)

        return self._pipeline

    def _finish(self, last: ChatLine, pieces: list[AnswerPiece]) -> None:
        answer = self._content_pipeline().finish()
        self._take_text(answer.pieces, pieces)
        reason = FinishReason.LENGTH if last.done_reason == "length" else FinishReason.STOP
        calls = tuple(self._calls)
        self.outcome = ChatOutcome(
            content=None if calls and not answer.content else answer.content or "",
            reasoning="".join(self._reasoning) or None,
            calls=calls,
            finish_reason=openai_finish_reason(reason, is_stopped=answer.is_stopped, has_calls=bool(calls)),
            usage=_usage(last),
            prompt_tokens=last.prompt_eval_count,
        )


@contextlib.asynccontextmanager
async def open_chat(
    daemon: OllamaDaemon, body: Body, stops: Sequence[str], *, tags: bool = True
) -> AsyncIterator[ChatReply]:
    """Ask, and give the answer once it has begun. Raises OllamaError. The daemon stops its work when the block is left.

    A model that cannot think, or not at this level, is asked again without: the client's wish for it is no more than that.
    """
    bodies = bodies_to_try(body)

    while True:
        async with contextlib.AsyncExitStack() as stack:
            try:
                answer = await stack.enter_async_context(daemon.ask(_CHAT, bodies.pop(0)))
            except DaemonRefused as refusal:
                if not bodies or not _is_about_thinking(refusal):
                    raise

                continue

            reply = ChatReply(answer, stops, tags=tags)
            await reply.wait_begun()
            yield reply
            return


def _is_about_thinking(refusal: DaemonRefused) -> bool:
    return refusal.status == 400 and "think" in (refusal.text or "").lower()


def _as_call(call: Call) -> ToolCall:
    # The daemon's own ids, where it gives any, are not unique over requests.
    call_id = f"call_{secrets.token_hex(12)}"
    return ToolCall(id=call_id, name=call.function.name, arguments=arguments_text(call.function))


def _usage(last: ChatLine) -> Usage | None:
    prompt, completion = last.prompt_eval_count, last.eval_count

    if prompt is None or completion is None or prompt < 0 or completion < 0:
        return None

    return Usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)
