"""From generated text to an answer: thinking, content, tool calls.

One pipeline per answer, fed by its handler with each Delta of the worker, in the front's event loop; nothing blocks. Streamed or not, the
handler does the same: what it joins from the pieces is byte for byte what `finish` reports as a whole.
Stop strings count in the visible content only: not in thinking, and not in the text of a call.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from prism.chat.answer_pieces import AnswerPiece, ContentText, ReasoningText
from prism.chat.reasoning import ReasoningSplitter
from prism.chat.stop_strings import StopMatcher
from prism.chat.tool_call_values import OfferedTools, ToolCall
from prism.chat.tool_calls import ParsedAnswer, call_openings, parse_tool_calls
from prism.chat.tool_family import ToolFamily

_NOTHING: tuple[AnswerPiece, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolReading:
    """What calls to look for in an answer. tools: name to the schema of the parameters, or None."""

    tools: OfferedTools
    family: ToolFamily


@dataclass(frozen=True, slots=True)
class FinishedAnswer:
    """The end of an answer.

    pieces: text that was held back until now, to be sent in this order.
    content: the whole content; None if there is none beside calls.
    reasoning: the whole thinking; None if there is none.
    reasoning_tokens: how many of the completion tokens were thinking, its tags included.
    is_stopped: a stop string ended the content.
    is_call_cut: the text ends in the middle of a call.
    """

    pieces: tuple[AnswerPiece, ...]
    content: str | None
    reasoning: str | None
    calls: tuple[ToolCall, ...]
    reasoning_tokens: int
    is_stopped: bool
    is_call_cut: bool


class AnswerPipeline:
    """Takes the text of one generation in pieces, in order, and gives back what may be sent."""

    def __init__(
        self,
        *,
        stops: Sequence[str] = (),
        splitter: ReasoningSplitter | None = None,
        tool_reading: ToolReading | None = None,
    ) -> None:
        """stops: stop strings, none of them empty.

        splitter: a fresh one; None for a raw completion, where tags are text.
        tool_reading: given when the request offers tools. Nothing is then handed out before the end.
        """
        self._stops = tuple(stops)
        self._splitter = splitter
        self._tool_reading = tool_reading
        self._matcher = StopMatcher(stops) if stops and tool_reading is None else None
        self._gate = _StopGate(stops, tool_reading.family) if stops and tool_reading is not None else None
        self._tokens = _ReasoningTokens()
        self._reasoning: list[str] = []
        self._content: list[str] = []
        self._is_passing = splitter is None and not stops and tool_reading is None
        self._is_stopped = False

    @property
    def is_stopped(self) -> bool:
        """True once a stop string has ended the answer: the generation may be cancelled, all later text is dropped."""
        return self._is_stopped

    def feed(self, text: str, completion_tokens: int) -> Sequence[AnswerPiece]:
        """Take the next piece and return what may be sent.

        text: not empty.
        completion_tokens: how many tokens were generated up to here.
        """
        if self._is_passing:
            self._content.append(text)
            return (ContentText(text),)

        if self._is_stopped:
            return _NOTHING

        return self._take(self._split(text, completion_tokens))

    def finish(self) -> FinishedAnswer:
        """The generation is over: return what was held back, and the answer as a whole."""
        pieces: list[AnswerPiece] = []

        if not self._is_stopped:
            pieces.extend(self._take(self._splitter.finish() if self._splitter is not None else ()))

        if self._matcher is not None:
            pieces.extend(self._content_pieces(self._matcher.finish()))
            self._is_stopped = self._matcher.is_stopped

        if self._tool_reading is None:
            return self._finished(tuple(pieces), ParsedAnswer("".join(self._content), (), is_cut=False))

        return self._finish_with_tools(self._tool_reading)

    def _split(self, text: str, completion_tokens: int) -> Sequence[AnswerPiece]:
        splitter = self._splitter

        if splitter is None or splitter.is_passing:
            return (ContentText(text),)

        was_reasoning, blocks = splitter.is_reasoning, splitter.block_count
        pieces = splitter.feed(text)
        is_reasoning = was_reasoning or splitter.is_reasoning or splitter.block_count > blocks
        self._tokens.count(completion_tokens, is_reasoning=is_reasoning, is_undecided=splitter.is_undecided)
        self._is_passing = splitter.is_passing and not self._stops and self._tool_reading is None
        return pieces

    def _take(self, pieces: Sequence[AnswerPiece]) -> Sequence[AnswerPiece]:
        """Keep the pieces for the end, stop at a stop string, and return what may be sent now."""
        sent: list[AnswerPiece] = []

        for piece in pieces:
            if self._is_stopped:
                break

            match piece:
                case ReasoningText(text):
                    self._reasoning.append(text)
                    sent.append(piece)

                case ContentText(text):
                    sent.extend(self._take_content(text))

        return sent if self._tool_reading is None else _NOTHING

    def _take_content(self, text: str) -> Sequence[AnswerPiece]:
        if self._matcher is not None:
            text = self._matcher.feed(text)
            self._is_stopped = self._matcher.is_stopped

        if self._gate is not None:
            self._is_stopped = self._gate.is_stopped_by(text)

        return self._content_pieces(text)

    def _content_pieces(self, text: str) -> Sequence[AnswerPiece]:
        if not text:
            return _NOTHING

        self._content.append(text)
        return (ContentText(text),)

    def _finish_with_tools(self, tool_reading: ToolReading) -> FinishedAnswer:
        text = "".join(self._content)

        if self._is_stopped:
            parsed = ParsedAnswer(text, (), is_cut=False)
        else:
            parsed = parse_tool_calls(text, tool_reading.tools, tool_reading.family)

        matcher = StopMatcher(self._stops)
        content = matcher.feed(parsed.content) + matcher.finish()
        self._is_stopped = matcher.is_stopped
        reasoning = "".join(self._reasoning)
        pieces: list[AnswerPiece] = [ReasoningText(reasoning)] if reasoning else []

        if content:
            pieces.append(ContentText(content))

        return self._finished(tuple(pieces), ParsedAnswer(content, parsed.calls, parsed.is_cut))

    def _finished(self, pieces: tuple[AnswerPiece, ...], parsed: ParsedAnswer) -> FinishedAnswer:
        reasoning = "".join(self._reasoning)
        return FinishedAnswer(
            pieces=pieces,
            content=None if parsed.calls and not parsed.content else parsed.content,
            reasoning=reasoning or None,
            calls=parsed.calls,
            reasoning_tokens=self._tokens.reasoning if reasoning else 0,
            is_stopped=self._is_stopped,
            is_call_cut=parsed.is_cut,
        )


class _ReasoningTokens:
    """Counts the tokens that fell into thinking. Tokens that may be part of an opening tag count once that is certain."""

    def __init__(self) -> None:
        self.reasoning = 0
        self._undecided = 0
        self._seen = 0

    def count(self, completion_tokens: int, *, is_reasoning: bool, is_undecided: bool) -> None:
        fresh = completion_tokens - self._seen
        self._seen = completion_tokens

        if is_reasoning:
            self.reasoning += self._undecided + fresh
            self._undecided = 0
        elif is_undecided:
            self._undecided += fresh
        else:
            self._undecided = 0


class _StopGate:
    """Watches for stop strings in an answer that may hold calls, while it is written.

    They end the generation only in front of the first call. Whether a text that begins like a list or an object is a call is known at the
    end only, so that such an answer is not ended early. The end looks for stop strings in the content once more.
    """

    def __init__(self, stops: Sequence[str], family: ToolFamily) -> None:
        self._stops = StopMatcher(stops)
        self._openings = StopMatcher(call_openings(family))
        self._has_begun = False
        self._is_open = True

    def is_stopped_by(self, text: str) -> bool:
        """Take the next piece of the content; True if a stop string is in the content in front of any call."""
        if not self._has_begun and (begin := text.lstrip()):
            self._has_begun = True
            self._is_open = begin[0] not in "{["

        if self._is_open:
            self._stops.feed(self._openings.feed(text))
            self._is_open = not self._openings.is_stopped

        return self._stops.is_stopped
