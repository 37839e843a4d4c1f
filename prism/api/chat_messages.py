"""The messages of a chat as a client writes them. Decoded by msgspec as part of `ChatRequest`; turned into plain text elsewhere. Pure."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Role = Literal["system", "developer", "user", "assistant", "tool"]
NonEmptyText = Annotated[str, Meta(min_length=1)]


# gc=False on whatever a body may hold in great number: none of them can be part of a cycle, and the collector would walk them all.
class ImageUrl(msgspec.Struct, frozen=True, gc=False):
    """url: a base64 data URL. Whether it is one is checked where images are used; text-only models drop it unseen."""

    url: str
    detail: Literal["auto", "low", "high"] | None = None


class ContentPart(msgspec.Struct, frozen=True, gc=False):
    """A part of a message. `text` and `image_url` are used; parts of other types are taken and dropped, with all their fields."""

    type: str
    text: str | None = None
    image_url: ImageUrl | None = None


class CalledFunction(msgspec.Struct, frozen=True, gc=False):
    """arguments: a JSON text, as the model wrote it."""

    name: NonEmptyText
    arguments: str | None = None


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A call that an earlier assistant turn made."""

    function: CalledFunction
    id: str | None = None
    type: Literal["function"] | None = None


class ChatMessage(msgspec.Struct, frozen=True, gc=False):
    """One turn. Fields that do not belong to its role are ignored.

    content: null and missing mean no text. reasoning_content: the thinking of an earlier assistant turn, which some templates take back.
    """

    role: Role
    content: str | list[str | ContentPart] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
