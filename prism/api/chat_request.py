"""The body of POST /v1/chat/completions. Called by its handler: decode, find the model, then check the numbers. Pure.

Order of faults: JSON, then shapes (messages, tools, formats), then, once the model is known, numbers.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from prism.api.chat_messages import ChatMessage, ContentPart
from prism.api.errors import ApiError
from prism.api.free_json import check_total_size
from prism.api.generation_fields import GenerationFields, check_model_name
from prism.api.generation_numbers import check_numbers
from prism.api.json_body import decode_body
from prism.api.limits import MAX_CONTENT_PARTS, MAX_MESSAGES, MAX_TOOL_CALLS, MAX_TOOLS
from prism.api.reasoning import Effort, Reasoning, combined_effort
from prism.api.refusals import invalid_request
from prism.api.response_format import ResponseFormat, check_response_format
from prism.api.tools import Tool, ToolChoice, check_tools, offered_tools, tool_as_dict, unknown_choice


class ChatRequest(GenerationFields, frozen=True, kw_only=True):
    """Fields that are not listed (logprobs, logit_bias, user, ...) are accepted and ignored."""

    messages: Annotated[list[ChatMessage], Meta(extra_json_schema={"minItems": 1, "maxItems": MAX_MESSAGES})]
    tools: Annotated[list[Tool] | None, Meta(extra_json_schema={"maxItems": MAX_TOOLS})] = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: Effort | None = None
    reasoning: Reasoning | None = None


_DECODER = msgspec.json.Decoder(ChatRequest)


def decode_chat_request(body: bytes) -> ChatRequest:
    """Return the request. Raises ApiError (400) that names the field for every fault but a number out of range."""
    try:
        request = decode_body(body, _DECODER)
    except ApiError as error:
        raise _with_better_words(error) from None

    _check_messages(request.messages)
    _check_schema_sizes(request)
    check_tools(request.tools or [], request.tool_choice)
    check_response_format(request.response_format)
    check_model_name(request)

    return request


def check_chat_numbers(request: ChatRequest, *, is_onnx: bool) -> None:
    """Raise ApiError for the first number that is out of range, or that the engine has no use for."""
    check_numbers(request, is_onnx=is_onnx)


def effective_reasoning_effort(request: ChatRequest) -> Effort | None:
    """Return the effort that counts; None leaves it to the model."""
    return combined_effort(request.reasoning_effort, request.reasoning)


def offered_tool_dicts(request: ChatRequest) -> list[dict[str, object]]:
    """Return the tools that the model is shown, after `tool_choice`, as templates and Ollama take them."""
    return [tool_as_dict(tool) for tool in offered_tools(request.tools or [], request.tool_choice)]


def _with_better_words(error: ApiError) -> ApiError:
    is_choice = error.param is not None and error.param.split(".", 1)[0] == "tool_choice"

    return unknown_choice() if is_choice else error


def _check_messages(messages: list[ChatMessage]) -> None:
    if not messages:
        raise invalid_request("'messages' must not be empty.", "messages")

    if len(messages) > MAX_MESSAGES:
        raise invalid_request(f"'messages' takes at most {MAX_MESSAGES} messages, not {len(messages)}.", "messages")

    parts = sum(len(message.content) for message in messages if isinstance(message.content, list))

    if parts > MAX_CONTENT_PARTS:
        raise invalid_request(f"'messages' takes at most {MAX_CONTENT_PARTS} content parts, not {parts}.", "messages")

    calls = sum(len(message.tool_calls) for message in messages if message.tool_calls)

    if calls > MAX_TOOL_CALLS:
        raise invalid_request(f"'messages' takes at most {MAX_TOOL_CALLS} tool calls, not {calls}.", "messages")

    for number, message in enumerate(messages):
        _check_parts(message, f"messages[{number}].content")


def _check_schema_sizes(request: ChatRequest) -> None:
    """Before any schema is decoded, which is the costly part."""
    schemas = [tool.function.parameters for tool in request.tools or []]

    if request.response_format is not None and request.response_format.json_schema is not None:
        schemas.append(request.response_format.json_schema.schema)

    check_total_size(schemas, "tools" if request.tools else "response_format")


def _check_parts(message: ChatMessage, field: str) -> None:
    if not isinstance(message.content, list):
        return

    for number, part in enumerate(message.content):
        if isinstance(part, ContentPart) and (missing := _missing_field(part)):
            raise invalid_request(
                f"'{field}[{number}].{missing}' is required with this type.", f"{field}[{number}].{missing}"
            )


def _missing_field(part: ContentPart) -> str | None:
    match part:
        case ContentPart(type="text", text=None):
            return "text"

        case ContentPart(type="image_url", image_url=None):
            return "image_url"

        case _:
            return None
