"""Tools that a chat request offers, and `tool_choice`. Shapes, and which tools the model gets to see. Pure."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from prism.api.chat_messages import NonEmptyText
from prism.api.errors import ApiError
from prism.api.free_json import decode_object, is_absent
from prism.api.limits import MAX_TOOLS
from prism.api.refusals import invalid_request

_MAX_NAMES_IN_MESSAGE = 20


class FunctionTool(msgspec.Struct, frozen=True, gc=False):
    """parameters: a JSON Schema of the arguments, kept as JSON text; absent means no arguments."""

    name: NonEmptyText
    description: str | None = None
    parameters: Annotated[msgspec.Raw, Meta(extra_json_schema={"type": ["object", "null"]})] = msgspec.field(
        default_factory=msgspec.Raw
    )


class Tool(msgspec.Struct, frozen=True, gc=False):
    """A function that the model may call."""

    function: FunctionTool
    type: Literal["function"]


class NamedFunction(msgspec.Struct, frozen=True):
    """The function that a reply must call."""

    name: NonEmptyText


class NamedToolChoice(msgspec.Struct, frozen=True):
    """The structured form of `tool_choice`."""

    type: Literal["function"]
    function: NamedFunction


ToolChoice: TypeAlias = Literal["none", "auto", "required"] | NamedToolChoice


def check_tools(tools: Sequence[Tool], choice: ToolChoice | None) -> None:
    """Raise ApiError when the tools, or the choice among them, cannot be honoured."""
    if len(tools) > MAX_TOOLS:
        raise invalid_request(f"'tools' takes at most {MAX_TOOLS} tools, not {len(tools)}.", "tools")

    _check_names(tools)

    for number, tool in enumerate(tools):
        decode_object(tool.function.parameters, f"tools[{number}].function.parameters")

    _check_choice(tools, choice)


def offered_tools(tools: Sequence[Tool], choice: ToolChoice | None) -> list[Tool]:
    """Return the tools that the model is shown: none, all, or the one that was named."""
    match choice:
        case "none":
            return []

        case NamedToolChoice(function=NamedFunction(name=name)):
            return [tool for tool in tools if tool.function.name == name]

        case _:
            return list(tools)


def must_call(choice: ToolChoice | None) -> bool:
    """Say whether the reply has to be a call of an offered tool."""
    return choice == "required" or isinstance(choice, NamedToolChoice)


def tool_as_dict(tool: Tool) -> dict[str, object]:
    """Return a checked tool as templates and Ollama take it, without the keys that were not given."""
    function: dict[str, object] = {"name": tool.function.name}

    if tool.function.description is not None:
        function["description"] = tool.function.description

    if not is_absent(tool.function.parameters):
        function["parameters"] = decode_object(tool.function.parameters, "tools")

    return {"type": tool.type, "function": function}


def unknown_choice() -> ApiError:
    """Return the error for a `tool_choice` of another shape."""
    return invalid_request(
        '\'tool_choice\' must be "none", "auto", "required" or {"type": "function", "function": {"name": "<tool_name>"}}.',
        "tool_choice",
    )


def _check_names(tools: Sequence[Tool]) -> None:
    seen: set[str] = set()

    for number, tool in enumerate(tools):
        if tool.function.name in seen:
            field = f"tools[{number}].function.name"
            raise invalid_request(f"'{field}' is the name of an earlier tool: names must differ.", field)

        seen.add(tool.function.name)


def _check_choice(tools: Sequence[Tool], choice: ToolChoice | None) -> None:
    if choice == "required" and not tools:
        raise invalid_request("'tool_choice' is \"required\", but there are no tools to call.", "tool_choice")

    if isinstance(choice, NamedToolChoice) and not offered_tools(tools, choice):
        raise invalid_request(
            f"'tool_choice' names the tool '{choice.function.name[:80]}', which is not in 'tools'. {_available(tools)}",
            "tool_choice",
        )


def _available(tools: Sequence[Tool]) -> str:
    if not tools:
        return "There are no tools in the request."

    names = [tool.function.name[:80] for tool in tools[:_MAX_NAMES_IN_MESSAGE]]

    return f"Available: {', '.join(names)}{', …' if len(tools) > len(names) else ''}."
