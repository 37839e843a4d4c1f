"""Puts the marks of `control_tokens.py` into a request: each kind of message has its own tokens that must stay text there.

Called by `prompt.py` before a template is rendered; pure.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from prism.chat.control_tokens import TokenSet, mark_for, with_marks
from prism.chat.prompt_images import marked_parts
from prism.chat.prompt_messages import Message
from prism.chat.reasoning_tags import DEFAULT_PAIRS

# What an assistant turn may hold as tokens: templates look for these in the history, and the model wrote them itself.
_CALL_MARKS = frozenset(
    {"<tool_call>", "</tool_call>", "<|tool_call|>", "<|/tool_call|>", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>"}
    | {
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>",
    }
)
_UNMARKED_KEYS = frozenset({"role", "type"})


@dataclass(frozen=True, slots=True)
class Marked:
    """Messages and tools with marks in them. mark: None when nothing had to be marked."""

    messages: list[Message]
    tools: list[Mapping[str, object]]
    mark: str | None


class Marking:
    """What must stay text for one model. Does not change."""

    def __init__(self, tokens: frozenset[str], templates: Collection[str]) -> None:
        """templates: no character of theirs serves as a mark."""
        self._templates = tuple(templates)
        self._tokens = TokenSet(tokens)
        self._assistant_tokens = TokenSet(tokens - _CALL_MARKS - _thinking_tokens(tokens))

    def marked(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, object]], texts: Sequence[str]
    ) -> Marked:
        """texts: all that the messages and tools hold. Raises NoMarkLeft."""
        if not any(self._tokens.cuts(text) for text in texts):
            return Marked(list(messages), list(tools), None)

        mark = mark_for([*texts, *self._templates])
        return Marked(
            [self._marked_message(message, mark) for message in messages],
            [self._marked_tool(tool, mark) for tool in tools],
            mark,
        )

    def _marked_tool(self, tool: Mapping[str, object], mark: str) -> Mapping[str, object]:
        return {key: _mark_value(key, value, self._tokens, mark) for key, value in tool.items()}

    def _marked_message(self, message: Message, mark: str) -> Message:
        is_assistant = message.get("role") == "assistant"

        return {
            key: _mark_value(
                key, value, self._assistant_tokens if is_assistant and key != "tool_calls" else self._tokens, mark
            )
            for key, value in message.items()
        }


def _thinking_tokens(tokens: frozenset[str]) -> frozenset[str]:
    return frozenset(tag for pair in DEFAULT_PAIRS if pair.opening in tokens for tag in (pair.opening, pair.closing))


def _mark_value(key: str, value: object, tokens: TokenSet, mark: str) -> object:
    if key == "content" and isinstance(value, list):
        return marked_parts(value, tokens, mark)

    return value if key in _UNMARKED_KEYS else with_marks(value, tokens, mark)
