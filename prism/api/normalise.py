"""Messages as clients write them -> messages as chat templates and Ollama take them: plain dicts, each content one text.

Called by the chat handler after the request is checked. Pure; the request is not changed. Decoding the arguments of earlier calls is
bounded by `MAX_ARGUMENTS_CHARS` over the whole request.
"""

import msgspec

from prism.api.chat_messages import ChatMessage, ContentPart, ImageUrl, Role, ToolCall
from prism.api.chat_request import ChatRequest
from prism.api.free_json import is_shallow
from prism.api.limits import MAX_ARGUMENTS_CHARS


class ImagePart(msgspec.Struct, frozen=True):
    """An image of the request. field: its path, for errors. role: of its message."""

    message_index: int
    part_index: int
    field: str
    image: ImageUrl
    role: Role = "user"


def normalise_messages(request: ChatRequest, *, keeps_images: bool = False) -> tuple[list[dict[str, object]], int]:
    """Return the messages for a model, and how many content parts were dropped because it has no use for them.

    Keys: role, content, and where they were given name, tool_call_id (tool), tool_calls and reasoning_content (assistant). A result
    without a name gets that of the call which it answers: OpenAI's clients send none, and some templates show it.
    keeps_images: for a model that can see; a content with images is then a list of {"type": "text", "text": ...} and {"type": "image"}.
    """
    budget = _ArgumentBudget(MAX_ARGUMENTS_CHARS)
    messages: list[dict[str, object]] = []
    names_of_calls: dict[str, str] = {}
    dropped = 0

    for message in request.messages:
        plain = _as_dict(message, budget)
        _name_results(message, plain, names_of_calls)
        dropped += _count_dropped(message)

        if keeps_images and (images := _count_images(message)):
            plain["content"] = _parts_of(message)
            dropped -= images

        messages.append(plain)

    return messages, dropped


def image_parts(request: ChatRequest) -> list[ImagePart]:
    """Return the images of the request in reading order, unchecked, for a model that can see."""
    return [
        ImagePart(number, position, f"messages[{number}].content[{position}].image_url", part.image_url, message.role)
        for number, message in enumerate(request.messages)
        if isinstance(message.content, list)
        for position, part in enumerate(message.content)
        if isinstance(part, ContentPart) and part.type == "image_url" and part.image_url is not None
    ]


class _ArgumentBudget:
    """How many characters of arguments may still be decoded; the rest stays text."""

    def __init__(self, chars: int) -> None:
        self._left = chars

    def take(self, chars: int) -> bool:
        if chars > self._left:
            return False

        self._left -= chars

        return True


def _as_dict(message: ChatMessage, budget: _ArgumentBudget) -> dict[str, object]:
    plain: dict[str, object] = {"role": message.role, "content": _text_of(message)}

    if message.name is not None:
        plain["name"] = message.name

    if message.role == "tool" and message.tool_call_id is not None:
        plain["tool_call_id"] = message.tool_call_id

    if message.role == "assistant" and message.tool_calls:
        plain["tool_calls"] = [_call_as_dict(call, budget) for call in message.tool_calls]

    if message.role == "assistant" and message.reasoning_content:
        plain["reasoning_content"] = message.reasoning_content

    return plain


def _name_results(message: ChatMessage, plain: dict[str, object], names_of_calls: dict[str, str]) -> None:
    if message.role == "assistant":
        names_of_calls |= {call.id: call.function.name for call in message.tool_calls or () if call.id is not None}

    if message.role == "tool" and message.name is None and message.tool_call_id in names_of_calls:
        plain["name"] = names_of_calls[message.tool_call_id]


def _text_of(message: ChatMessage) -> str:
    match message.content:
        case None:
            return ""

        case str() as text:
            return text

        case parts:
            return "\n".join(text for text in map(_part_text, parts) if text is not None)


def _part_text(part: str | ContentPart) -> str | None:
    if isinstance(part, str):
        return part

    return part.text if part.type == "text" else None


def _parts_of(message: ChatMessage) -> list[dict[str, object]]:
    """Texts that follow each other are joined as they are without images."""
    parts: list[dict[str, object]] = []

    for part in message.content or ():
        text = _part_text(part)

        if text is None:
            if _is_image(part):
                parts.append({"type": "image"})
        elif parts and parts[-1]["type"] == "text":
            parts[-1]["text"] = f"{parts[-1]['text']}\n{text}"
        else:
            parts.append({"type": "text", "text": text})

    return parts


def _count_images(message: ChatMessage) -> int:
    return sum(map(_is_image, message.content)) if isinstance(message.content, list) else 0


def _is_image(part: str | ContentPart) -> bool:
    return isinstance(part, ContentPart) and part.type == "image_url" and part.image_url is not None


def _count_dropped(message: ChatMessage) -> int:
    if not isinstance(message.content, list):
        return 0

    return sum(_part_text(part) is None for part in message.content)


def _call_as_dict(call: ToolCall, budget: _ArgumentBudget) -> dict[str, object]:
    function: dict[str, object] = {
        "name": call.function.name,
        "arguments": _decoded(call.function.arguments or "", budget),
    }
    plain: dict[str, object] = {"type": "function", "function": function}

    return plain if call.id is None else {"id": call.id, **plain}


def _decoded(arguments: str, budget: _ArgumentBudget) -> object:
    """Return an object or a list for templates that walk through it; {} for blank and null; any other text as it was sent."""
    if arguments.strip() in ("", "null"):
        return {}

    if _holds_nul(arguments) or not budget.take(len(arguments)):
        return arguments

    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments

    return value if isinstance(value, dict | list) and is_shallow(value) else arguments


def _holds_nul(arguments: str) -> bool:
    # A NUL would come out of its escape when decoded, past the check of the body, and cut the prompt.
    return "\\u0000" in arguments and "\\u0000" in arguments.replace("\\\\", "")
