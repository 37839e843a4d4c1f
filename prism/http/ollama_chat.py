"""POST /v1/chat/completions for models of the Ollama daemon. Called by the handler of chats once the name is known to be one of them.

Not in the queue of the server's own models. Headers go out after the daemon's first line, so that all that fails before has its status.
"""

import logging
import time
from dataclasses import dataclass

import msgspec
from aiohttp import web
from msgspec import UNSET

from prism.api.chat_request import ChatRequest, check_chat_numbers
from prism.api.generation_fields import wants_stream, wants_usage_chunk
from prism.api.generation_numbers import stop_strings
from prism.api.responses import ChatChoice, ChatCompletion
from prism.http.chat_stream import answer_message, new_chat_id, stream_chat
from prism.http.chunks import ChatEvents
from prism.http.headers import DROPPED_PARTS_HEADER
from prism.http.model_names import OllamaModel
from prism.http.ollama_cut import note_if_cut
from prism.http.ollama_faults import Asked
from prism.http.services import SERVICES
from prism.ollama.chat import ChatOutcome, ChatReply, open_chat
from prism.ollama.requests import Body, chat_body
from prism.ollama.truncation import least_tokens

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A request that may be sent. least_tokens: what its prompt has at the least."""

    chat: ChatRequest
    asked: Asked
    body: Body
    least_tokens: int
    headers: dict[str, str]

    def note_if_cut(self, outcome: ChatOutcome) -> bool:
        """See `note_if_cut`."""
        return note_if_cut(self.asked.model, self.least_tokens, outcome)


async def ollama_chat(request: web.Request, chat: ChatRequest, model: OllamaModel) -> web.StreamResponse:
    """Handle one request. Cancelled by aiohttp when the client leaves: the block below ends, and with it the daemon's work."""
    services = request.app[SERVICES]
    prepared = await services.prompts.run(lambda: _prepare(chat, model))

    with prepared.asked.told():
        async with open_chat(services.ollama, prepared.body, stop_strings(chat)) as reply:
            if wants_stream(chat):
                return await _streamed(request, prepared, reply, services.settings.sse_ping_s)

            return await _whole(prepared, reply)


def _prepare(chat: ChatRequest, model: OllamaModel) -> _Prepared:
    """Run in a thread of its own: pictures and long texts take some milliseconds a megabyte."""
    check_chat_numbers(chat, is_onnx=False)
    body, dropped = chat_body(chat, model.name)

    if dropped:
        logger.info("[ollama %r] dropped %d content parts that are neither text nor pictures", model.name, dropped)

    messages = body["messages"]
    assert isinstance(messages, list)
    return _Prepared(
        chat=chat,
        asked=Asked(model.name, "messages"),
        body=body,
        least_tokens=least_tokens(message["content"] for message in messages),
        headers={DROPPED_PARTS_HEADER: str(dropped)} if dropped else {},
    )


async def _whole(prepared: _Prepared, reply: ChatReply) -> web.Response:
    while reply.outcome is None:
        await reply.next_pieces()

    outcome = reply.outcome
    message = answer_message(outcome.content, outcome.reasoning, outcome.calls)
    completion = ChatCompletion(
        id=new_chat_id(),
        created=int(time.time()),
        model=prepared.chat.model,
        choices=[ChatChoice(message=message, finish_reason=outcome.finish_reason)],
        usage=outcome.usage or UNSET,
        prompt_truncated=True if prepared.note_if_cut(outcome) else UNSET,
    )
    body = msgspec.json.encode(completion)
    return web.Response(body=body, content_type="application/json", headers=prepared.headers)


async def _streamed(request: web.Request, prepared: _Prepared, reply: ChatReply, ping_s: float) -> web.StreamResponse:
    return await stream_chat(
        request,
        prepared.chat,
        reply,
        headers=prepared.headers,
        ping_s=ping_s,
        last_events=lambda events, outcome: _last_events(prepared, outcome, events),
        api_error=prepared.asked.api_error,
    )


def _last_events(prepared: _Prepared, outcome: ChatOutcome, events: ChatEvents) -> bytes:
    last = [events.tool_calls(outcome.calls)] if outcome.calls else []
    last.append(events.finish(outcome.finish_reason, is_prompt_cut=prepared.note_if_cut(outcome)))

    if wants_usage_chunk(prepared.chat) and outcome.usage is not None:
        last.append(events.usage(outcome.usage))

    return b"".join(last)
