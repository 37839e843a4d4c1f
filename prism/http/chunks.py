"""The events of a streamed answer as bytes. The head and the tail that all events of one stream share are written once.

A token's event is made of three joined byte strings and one encoded text: that is most of what the front does per token.
"""

from typing import Final

import msgspec

from prism.api.responses import ChatDelta, DeltaFunction, DeltaToolCall, Telemetry, Usage
from prism.chat.answer_pieces import AnswerPiece, ContentText
from prism.chat.finish_reason import OpenAiFinishReason
from prism.chat.tool_call_values import ToolCall

_encode: Final = msgspec.json.Encoder().encode
_PROMPT_CUT: Final = b',"prompt_truncated":true'


class _Head(msgspec.Struct, frozen=True):
    id: str
    object: str
    created: int
    model: str


class ChatEvents:
    """Events of one streamed chat completion.

    is_usage_wanted: the client asked for counts, so every event says `"usage":null` and one more event carries them.
    """

    def __init__(self, *, completion_id: str, created: int, model: str, is_usage_wanted: bool) -> None:
        head = _encode(_Head(completion_id, "chat.completion.chunk", created, model))
        self._head = b"data: " + head[:-1]
        self._open = self._head + b',"choices":[{"index":0,"delta":'
        self._tail = b',"usage":null}\n\n' if is_usage_wanted else b"}\n\n"
        self._close = b',"finish_reason":null}]' + self._tail
        self._content = self._open + b'{"content":'
        self._reasoning = self._open + b'{"reasoning_content":'
        self._close_text = b"}" + self._close

    def role(self) -> bytes:
        """The first event."""
        return self._delta(ChatDelta(role="assistant", content=""))

    def piece(self, piece: AnswerPiece) -> bytes:
        """A piece of thinking or of content."""
        begin = self._content if isinstance(piece, ContentText) else self._reasoning
        return b"".join((begin, _encode(piece.text), self._close_text))

    def tool_calls(self, calls: tuple[ToolCall, ...]) -> bytes:
        """All calls in one event."""
        deltas = [
            DeltaToolCall(
                index=number,
                id=call.id,
                type="function",
                function=DeltaFunction(name=call.name, arguments=call.arguments),
            )
            for number, call in enumerate(calls)
        ]
        return self._delta(ChatDelta(tool_calls=deltas))

    def finish(self, reason: OpenAiFinishReason, *, is_prompt_cut: bool = False) -> bytes:
        """The event that says why the answer ended. is_prompt_cut: and that it answers only a part of the prompt."""
        choice = (self._open, b'{},"finish_reason":', _encode(reason), b"}]")
        return b"".join((*choice, _PROMPT_CUT if is_prompt_cut else b"", self._tail))

    def usage(self, usage: Usage, telemetry: Telemetry | None = None) -> bytes:
        """The last event, when counts were asked for."""
        return self._head + _figures(usage, telemetry)

    def _delta(self, delta: ChatDelta) -> bytes:
        return b"".join((self._open, _encode(delta), self._close))


class TextEvents:
    """Events of one streamed text completion, of one or several prompts."""

    def __init__(self, *, completion_id: str, created: int, model: str, is_usage_wanted: bool) -> None:
        head = _encode(_Head(completion_id, "text_completion", created, model))
        self._head = b"data: " + head[:-1]
        self._tail = b',"usage":null}\n\n' if is_usage_wanted else b"}\n\n"

    def text(self, index: int, text: str) -> bytes:
        """A piece of the text of prompt number index."""
        return self._choice(index, _encode(text), b"null")

    def finish(self, index: int, reason: OpenAiFinishReason, *, is_prompt_cut: bool = False) -> bytes:
        """The end of the text of prompt number index. is_prompt_cut: which answers only a part of that prompt."""
        return self._choice(index, b'""', _encode(reason), _PROMPT_CUT if is_prompt_cut else b"")

    def usage(self, usage: Usage, telemetry: Telemetry | None = None) -> bytes:
        """The last event, when counts were asked for."""
        return self._head + _figures(usage, telemetry)

    def _choice(self, index: int, text: bytes, reason: bytes, more: bytes = b"") -> bytes:
        choice = b',"choices":[{"index":%d,"text":%b,"finish_reason":%b}]' % (index, text, reason)
        return self._head + choice + more + self._tail


def _figures(usage: Usage, telemetry: Telemetry | None) -> bytes:
    """The rest of the last event. telemetry: None for models that run elsewhere."""
    speed = (b',"telemetry":', _encode(telemetry)) if telemetry is not None else ()
    return b"".join((b',"choices":[],"usage":', _encode(usage), *speed, b"}\n\n"))
