"""Requests of OpenAI's API as the Ollama daemon takes them: bodies of /api/chat and /api/embed. Called by the handlers. Pure.

Always a stream: only so is a client that leaves, or a daemon that hangs, noticed while an answer is made. `keep_alive` and `num_ctx` stay
the daemon's own decision. A prompt that does not fit shall be refused (`truncate`) instead of being cut without a word, and an answer shall
end at the end of the window (`shift`) instead of going on with half of what was said; daemons before 0.12.6 know neither.
"""

from collections.abc import Sequence

from prism.api.chat_request import ChatRequest, effective_reasoning_effort, offered_tool_dicts
from prism.api.generation_fields import GenerationFields
from prism.api.generation_numbers import max_new_tokens, sampling_of, stop_strings
from prism.api.image_url import check_images
from prism.api.normalise import image_parts, normalise_messages
from prism.api.reasoning import Effort
from prism.api.response_format import answer_schema

Body = dict[str, object]
# The daemon has three levels.
_LEVELS: dict[Effort, bool | str] = {
    "none": False,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


def chat_body(request: ChatRequest, model: str) -> tuple[Body, int]:
    """Return the body, and how many content parts were dropped because they are neither text nor a picture.

    Raises ApiError (400) for a picture that cannot be used.
    """
    messages, dropped = normalise_messages(request)
    images = _images_of_messages(request)
    body = _body(request, model, _native_messages(messages, images))

    if tools := offered_tool_dicts(request):
        body["tools"] = tools

    if request.response_format is not None and (schema := answer_schema(request.response_format)) is not None:
        body["format"] = "json" if request.response_format.type == "json_object" else schema

    if (effort := effective_reasoning_effort(request)) is not None:
        body["think"] = _LEVELS[effort]

    return body, dropped - sum(map(len, images.values()))


def prompt_body(request: GenerationFields, model: str, prompt: str) -> Body:
    """Return the body that asks for the answer to one user message."""
    return _body(request, model, [{"role": "user", "content": prompt}])


def embed_body(model: str, texts: Sequence[str]) -> Body:
    """Return the body that asks for a vector of each text."""
    return {"model": model, "input": list(texts), "truncate": False}


def bodies_to_try(body: Body) -> list[Body]:
    """Return the body as it is, and what may be tried after a refusal: thinking without a level, then without a word about thinking."""
    if not body.get("think"):
        return [body]

    plain = {name: value for name, value in body.items() if name != "think"}
    return [body, body | {"think": True}, plain] if body["think"] is not True else [body, plain]


def _body(request: GenerationFields, model: str, messages: list[dict[str, object]]) -> Body:
    return {
        "model": model,
        "messages": messages,
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": _options(request),
    }


def _options(request: GenerationFields) -> Body:
    sampling = sampling_of(request)
    options: Body = {
        "num_predict": max_new_tokens(request),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "repeat_penalty": sampling.repetition_penalty,
        # Clients send 0 by default, which asks for nothing.
        "frequency_penalty": request.frequency_penalty or None,
        "presence_penalty": request.presence_penalty or None,
        "seed": sampling.seed,
        "stop": list(stop_strings(request)) or None,
    }
    return {name: value for name, value in options.items() if value is not None}


def _images_of_messages(request: ChatRequest) -> dict[int, list[str]]:
    """Return the pictures as base64, by the number of their message."""
    images: dict[int, list[str]] = {}

    for image in check_images(image_parts(request)):
        images.setdefault(image.message_index, []).append(image.base64)

    return images


def _native_messages(messages: list[dict[str, object]], images: dict[int, list[str]]) -> list[dict[str, object]]:
    return [_native(message, images.get(number)) for number, message in enumerate(messages)]


def _native(message: dict[str, object], images: list[str] | None) -> dict[str, object]:
    role = "system" if message["role"] == "developer" else message["role"]
    native: dict[str, object] = {"role": role, "content": message["content"]}
    calls = message.get("tool_calls")

    if images:
        native["images"] = images

    if isinstance(calls, list):
        native["tool_calls"] = [_native_call(call) for call in calls]

    if "reasoning_content" in message:
        native["thinking"] = message["reasoning_content"]

    if role == "tool":
        native["tool_name"] = message.get("name")
        native["tool_call_id"] = message.get("tool_call_id")

    return {name: value for name, value in native.items() if value is not None}


def _native_call(call: dict[str, object]) -> dict[str, object]:
    function = call["function"]
    assert isinstance(function, dict)
    arguments = function["arguments"]
    # The daemon takes an object only; what a model once wrote instead shall not be lost.
    native = {"name": function["name"], "arguments": arguments if isinstance(arguments, dict) else {"value": arguments}}
    return {"function": native} if call.get("id") is None else {"id": call["id"], "function": native}
