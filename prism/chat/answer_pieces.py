"""The two kinds of text that an answer is made of. Made by the reasoning splitter, sent on by the handlers of chat completions."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class ReasoningText:
    """A piece of the model's thinking, in order. text is never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class ContentText:
    """A piece of what the user is told, in order. text is never empty."""

    text: str


AnswerPiece: TypeAlias = ReasoningText | ContentText
