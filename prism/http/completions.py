"""POST /v1/completions: for ONNX models the raw prompt, no template, no reading of thinking or tools.

Several prompts are answered one after another in one turn, each as a choice of its own. Models of the Ollama daemon are handed on to
`prism.http.ollama_completions`.
"""

import contextlib
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

import msgspec
from aiohttp import web

from ipc.messages import GenerationTask, PrefixReuse
from prism.api.completion_request import CompletionRequest, decode_completion_request, prompts_of
from prism.api.generation_fields import wants_stream, wants_usage_chunk
from prism.api.generation_numbers import check_numbers, max_new_tokens, sampling_of, stop_strings
from prism.api.responses import Completion, CompletionChoice, CompletionTokensDetails, PromptTokensDetails, Usage
from prism.chat.answer import AnswerPipeline
from prism.http.body import read_body
from prism.http.chunks import TextEvents
from prism.http.error_table import to_api_error
from prism.http.generation import Generation, Outcome, likely_tokens
from prism.http.model_names import OllamaModel, resolve_model
from prism.http.ollama_completions import ollama_completions
from prism.http.reuse import prefix_reuse
from prism.http.services import SERVICES
from prism.http.sse import EventStream, open_event_stream
from supervisor.model_host import Turn
from supervisor.settings import ModelRef


async def completions(request: web.Request) -> web.StreamResponse:
    """Handle one request. Cancelled by aiohttp when the client leaves: the turn then ends, and with it the work."""
    services = request.app[SERVICES]
    completion = decode_completion_request(await read_body(request))
    entry = await resolve_model(services, completion.model)

    if isinstance(entry, OllamaModel):
        return await ollama_completions(request, completion, entry)

    check_numbers(completion, is_onnx=True)
    model = ModelRef(entry.id, entry.path)

    reuse = prefix_reuse(request, completion)
    tasks = [_task(completion, prompt, reuse) for prompt in prompts_of(completion)]

    for task in tasks:
        services.host.check_task(model, task)

    async with (
        services.host.turn(model, max(map(likely_tokens, tasks))) as turn,
        contextlib.aclosing(_generations(turn, completion, tasks)) as generations,
    ):
        services.machine.note_loaded(turn.loaded.device)
        # The first prompt is known to fit before the first byte goes out; a later one that does not ends the answer with an error.
        first = await anext(generations)

        if wants_stream(completion):
            return await _streamed(request, completion, first, generations, services.settings.sse_ping_s)

        return await _whole(completion, first, generations)


def _task(completion: CompletionRequest, prompt: str, reuse: PrefixReuse) -> GenerationTask:
    return GenerationTask(
        prompt=(prompt,), max_tokens=max_new_tokens(completion), sampling=sampling_of(completion), reuse=reuse
    )


async def _generations(
    turn: Turn, completion: CompletionRequest, tasks: Sequence[GenerationTask]
) -> AsyncGenerator[Generation, None]:
    for task in tasks:
        stream = turn.generate(task)
        generation = Generation(stream, AnswerPipeline(stops=stop_strings(completion)), turn.loaded.device, "prompt")
        await generation.wait_started()
        yield generation
        stream.cancel()
        await stream.ended.wait()


async def _each(first: Generation, rest: AsyncIterator[Generation]) -> AsyncIterator[Generation]:
    yield first

    async for generation in rest:
        yield generation


async def _whole(completion: CompletionRequest, first: Generation, rest: AsyncIterator[Generation]) -> web.Response:
    outcomes: list[Outcome] = []

    async for generation in _each(first, rest):
        while generation.outcome is None:
            await generation.next_pieces()

        outcomes.append(generation.outcome)

    answer = Completion(
        id=_new_id(),
        created=int(time.time()),
        model=completion.model,
        choices=[_choice(number, outcome) for number, outcome in enumerate(outcomes)],
        usage=_total_usage(outcomes),
        telemetry=outcomes[-1].telemetry,
    )
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


def _choice(number: int, outcome: Outcome) -> CompletionChoice:
    # Nothing of a raw completion is a call, so that reason cannot occur here.
    is_cut = outcome.finish_reason == "length"
    return CompletionChoice(
        index=number, text=outcome.answer.content or "", finish_reason="length" if is_cut else "stop"
    )


async def _streamed(
    request: web.Request,
    completion: CompletionRequest,
    first: Generation,
    rest: AsyncIterator[Generation],
    ping_s: float,
) -> web.StreamResponse:
    is_usage_wanted = wants_usage_chunk(completion)
    events = TextEvents(
        completion_id=_new_id(), created=int(time.time()), model=completion.model, is_usage_wanted=is_usage_wanted
    )

    async with open_event_stream(request, {}, ping_s) as (response, stream):
        try:
            outcomes = await _stream_choices(first, rest, events, stream)
        except ConnectionError:
            raise
        except Exception as error:
            await stream.write_error(to_api_error(error))
        else:
            if is_usage_wanted:
                await stream.write(events.usage(_total_usage(outcomes), outcomes[-1].telemetry))

    return response


async def _stream_choices(
    first: Generation, rest: AsyncIterator[Generation], events: TextEvents, stream: EventStream
) -> list[Outcome]:
    outcomes: list[Outcome] = []

    async for generation in _each(first, rest):
        index = len(outcomes)

        while generation.outcome is None:
            pieces = await generation.next_pieces()

            if pieces:
                await stream.write(b"".join([events.text(index, piece.text) for piece in pieces]))

        await stream.write(events.finish(index, generation.outcome.finish_reason))
        outcomes.append(generation.outcome)

    return outcomes


def _total_usage(outcomes: list[Outcome]) -> Usage:
    prompt_tokens = sum(outcome.usage.prompt_tokens for outcome in outcomes)
    completion_tokens = sum(outcome.usage.completion_tokens for outcome in outcomes)
    cached = [outcome.usage.prompt_tokens_details for outcome in outcomes]
    return Usage(
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        total_tokens=prompt_tokens + completion_tokens,
        prompt_tokens_details=PromptTokensDetails(sum(d.cached_tokens for d in cached if d is not msgspec.UNSET)),
        completion_tokens_details=CompletionTokensDetails(0),
    )


def _new_id() -> str:
    return f"cmpl-{secrets.token_hex(12)}"
