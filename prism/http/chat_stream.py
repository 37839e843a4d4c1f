"""How the answer to a chat goes out, whoever generates it. Called by the handlers of ONNX models' and of Ollama's chats."""

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from aiohttp import web
from msgspec import UNSET

from prism.api.chat_request import ChatRequest
from prism.api.errors import ApiError
from prism.api.generation_fields import wants_usage_chunk
from prism.api.responses import AnsweredFunction, AnsweredToolCall, AnswerMessage
from prism.chat.answer_pieces import AnswerPiece
from prism.chat.tool_call_values import ToolCall
from prism.http.chunks import ChatEvents
from prism.http.sse import open_event_stream

_Outcome = TypeVar("_Outcome")
_OutcomeOut = TypeVar("_OutcomeOut", covariant=True)


class Answering(Protocol[_OutcomeOut]):
    """An answer that is being generated. outcome: None until its end."""

    @property
    def outcome(self) -> _OutcomeOut | None: ...

    async def next_pieces(self) -> Sequence[AnswerPiece]:
        """Wait for text and return all that is there; empty when only the end has come."""


async def stream_chat(
    request: web.Request,
    chat: ChatRequest,
    answering: Answering[_Outcome],
    *,
    headers: dict[str, str],
    ping_s: float,
    last_events: Callable[[ChatEvents, _Outcome], bytes],
    api_error: Callable[[Exception], ApiError],
) -> web.StreamResponse:
    """Send the answer as events. last_events: what follows the text. api_error: how a fault in the middle is told."""
    events = ChatEvents(
        completion_id=new_chat_id(),
        created=int(time.time()),
        model=chat.model,
        is_usage_wanted=wants_usage_chunk(chat),
    )

    async with open_event_stream(request, headers, ping_s) as (response, stream):
        await stream.write(events.role())

        try:
            while (outcome := answering.outcome) is None:
                pieces = await answering.next_pieces()

                if pieces:
                    await stream.write(b"".join([events.piece(piece) for piece in pieces]))
        except ConnectionError:
            raise
        except Exception as error:
            await stream.write_error(api_error(error))
        else:
            await stream.write(last_events(events, outcome))

    return response


def answer_message(content: str | None, reasoning: str | None, calls: Sequence[ToolCall]) -> AnswerMessage:
    """Return the message of an answer that is sent as a whole."""
    answered = [AnsweredToolCall(id=call.id, function=AnsweredFunction(call.name, call.arguments)) for call in calls]
    return AnswerMessage(content=content, reasoning_content=reasoning or UNSET, tool_calls=answered or UNSET)


def new_chat_id() -> str:
    """Return an id that no other answer has."""
    return f"chatcmpl-{secrets.token_hex(12)}"
