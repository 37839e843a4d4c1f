"""POST /v1/chat/completions: here for ONNX models; those of the Ollama daemon are handed on to `prism.http.ollama_chat`.

All that can be refused is refused before the first byte of the answer, streams included: the order of the calls in
`chat_completions` and `_prepare` is the order of checks that docs/api.md promises.
"""

import logging
import time
from dataclasses import dataclass

import msgspec
from aiohttp import web

from ipc.messages import GenerationTask, Image, PrefixReuse
from prism.api.chat_request import (
    ChatRequest,
    check_chat_numbers,
    decode_chat_request,
    effective_reasoning_effort,
    offered_tool_dicts,
)
from prism.api.generation_fields import wants_stream, wants_usage_chunk
from prism.api.generation_numbers import max_new_tokens, sampling_of, stop_strings
from prism.api.image_url import check_images
from prism.api.normalise import image_parts, normalise_messages
from prism.api.refusals import tools_not_supported
from prism.api.responses import ChatChoice, ChatCompletion
from prism.chat.answer import AnswerPipeline, ToolReading
from prism.chat.prompt import ChatTemplate, Prompt, PromptRequest, TemplateMode
from prism.chat.reasoning import ReasoningSplitter
from prism.chat.reasoning_tags import TagPair, pairs_for_template
from prism.http.answer_constraint import answer_rules, guidance_for
from prism.http.body import read_body
from prism.http.chat_stream import answer_message, new_chat_id, stream_chat
from prism.http.chunks import ChatEvents
from prism.http.error_table import to_api_error
from prism.http.generation import Generation, Outcome, likely_tokens
from prism.http.headers import DROPPED_PARTS_HEADER
from prism.http.model_names import OllamaModel, resolve_model
from prism.http.ollama_chat import ollama_chat
from prism.http.reuse import prefix_reuse
from prism.http.services import SERVICES
from prism.model_entry import ModelEntry
from prism.settings import ServeSettings
from supervisor.settings import ModelRef

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A request that may wait for its turn: everything that does not need the engine is done."""

    chat: ChatRequest
    model: ModelRef
    prompt: Prompt
    tags: tuple[TagPair, ...]
    tools: list[dict[str, object]]
    task: GenerationTask
    constraint_field: str | None
    headers: dict[str, str]


async def chat_completions(request: web.Request) -> web.StreamResponse:
    """Handle one request. Cancelled by aiohttp when the client leaves: the turn then ends, and with it the work."""
    services = request.app[SERVICES]
    chat = decode_chat_request(await read_body(request))
    entry = await resolve_model(services, chat.model)

    if isinstance(entry, OllamaModel):
        return await ollama_chat(request, chat, entry)

    reuse = prefix_reuse(request, chat)
    prepared = await services.prompts.run(lambda: _prepare(services.settings, chat, entry, reuse))
    services.host.check_task(prepared.model, prepared.task)

    async with services.host.turn(prepared.model, likely_tokens(prepared.task)) as turn:
        services.machine.note_loaded(turn.loaded.device)
        stream = turn.generate(prepared.task)
        generation = Generation(stream, _pipeline(prepared), turn.loaded.device, "messages", prepared.constraint_field)
        await generation.wait_started()

        if wants_stream(chat):
            return await _streamed(request, prepared, generation, services.settings.sse_ping_s)

        return await _whole(prepared, generation)


def _prepare(settings: ServeSettings, chat: ChatRequest, entry: ModelEntry, reuse: PrefixReuse) -> _Prepared:
    """Run in a thread of its own: a hostile request or template may keep it busy for a second."""
    template = ChatTemplate.load(entry.path, entry.id, TemplateMode(settings.template_mode), entry.images)
    tools = offered_tool_dicts(chat)

    if tools and not template.supports_tools:
        raise tools_not_supported(entry.id)

    check_chat_numbers(chat, is_onnx=True)
    rules = answer_rules(chat)
    messages, dropped_parts = normalise_messages(chat, keeps_images=entry.images is not None)
    images = _images(chat, entry)

    if dropped_parts:
        logger.info("[%s] dropped %d content parts that the model has no use for", entry.id, dropped_parts)

    prompt_request = PromptRequest(
        messages=messages,
        tools=tools,
        reasoning_effort=effective_reasoning_effort(chat),
        allow_special_tokens=settings.allows_special_tokens,
    )
    prompt = template.render(prompt_request)
    return _Prepared(
        chat=chat,
        model=ModelRef(entry.id, entry.path),
        prompt=prompt,
        tags=pairs_for_template(template.source),
        tools=tools,
        task=GenerationTask(
            prompt=prompt.pieces,
            max_tokens=max_new_tokens(chat),
            sampling=sampling_of(chat),
            images=images,
            guidance=None if rules is None else guidance_for(rules, chat, template, prompt, entry.id),
            reuse=reuse,
        ),
        constraint_field=None if rules is None else rules.field,
        headers={DROPPED_PARTS_HEADER: str(dropped_parts)} if dropped_parts else {},
    )


def _images(chat: ChatRequest, entry: ModelEntry) -> tuple[Image, ...]:
    """The pictures of the request, for a model that can see; for others they are dropped parts."""
    if entry.images is None:
        return ()

    checked = check_images(image_parts(chat))
    markers = entry.images.markers(len(checked))
    return tuple(
        Image(data=image.data, field=image.field, marker=marker, is_low_detail=image.is_low_detail)
        for image, marker in zip(checked, markers, strict=True)
    )


def _pipeline(prepared: _Prepared) -> AnswerPipeline:
    reading = ToolReading(_schemas(prepared.tools), prepared.prompt.family) if prepared.tools else None
    return AnswerPipeline(
        stops=stop_strings(prepared.chat),
        splitter=ReasoningSplitter(opened_by_prompt=prepared.prompt.opened_pair, pairs=prepared.tags),
        tool_reading=reading,
    )


def _schemas(tools: list[dict[str, object]]) -> dict[str, dict[str, object] | None]:
    """Return the parameters' schema of each offered tool by the tool's name."""
    schemas: dict[str, dict[str, object] | None] = {}

    for tool in tools:
        function = tool["function"]
        assert isinstance(function, dict)
        parameters = function.get("parameters")
        schemas[function["name"]] = parameters if isinstance(parameters, dict) else None

    return schemas


async def _whole(prepared: _Prepared, generation: Generation) -> web.Response:
    while generation.outcome is None:
        await generation.next_pieces()

    outcome = generation.outcome
    message = answer_message(outcome.answer.content, outcome.answer.reasoning, outcome.answer.calls)
    completion = ChatCompletion(
        id=new_chat_id(),
        created=int(time.time()),
        model=prepared.chat.model,
        choices=[ChatChoice(message=message, finish_reason=outcome.finish_reason)],
        usage=outcome.usage,
        telemetry=outcome.telemetry,
    )
    body = msgspec.json.encode(completion)
    return web.Response(body=body, content_type="application/json", headers=prepared.headers)


async def _streamed(
    request: web.Request, prepared: _Prepared, generation: Generation, ping_s: float
) -> web.StreamResponse:
    return await stream_chat(
        request,
        prepared.chat,
        generation,
        headers=prepared.headers,
        ping_s=ping_s,
        last_events=lambda events, outcome: _last_events(prepared, outcome, events),
        api_error=to_api_error,
    )


def _last_events(prepared: _Prepared, outcome: Outcome, events: ChatEvents) -> bytes:
    last = [events.tool_calls(outcome.answer.calls)] if outcome.answer.calls else []
    last.append(events.finish(outcome.finish_reason))

    if wants_usage_chunk(prepared.chat):
        last.append(events.usage(outcome.usage, outcome.telemetry))

    return b"".join(last)
