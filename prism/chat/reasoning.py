"""Part the model's thinking from its answer, piece by piece.

Used by the answer pipeline, in the front's event loop; nothing blocks and the cost is linear in the text. The result does not depend on how
the text was cut into pieces, so a streamed answer and a whole one are the same.

Where a block of thinking may begin:
- at the beginning of the answer, white space aside, or right there when the prompt has opened it;
- directly after another block, white space aside;
- once, after a short preamble ("Let me think."): the opening tag is the first thing on its line, within the first 256 characters, and no
  code fence was seen before it. Everywhere else a tag is a text about tags, and stays.
A block that is never closed takes the rest of the answer. In a block the newlines at both ends are dropped, and a block of white space
alone is no thinking at all; several blocks are joined by an empty line. Newlines directly after a block are dropped. Other white space is
kept.
"""

from enum import Enum, auto

from prism.chat.answer_pieces import AnswerPiece, ContentText, ReasoningText
from prism.chat.reasoning_tags import DEFAULT_PAIRS, TagPair

_NEWLINES = "\r\n"
_WHITE_SPACE = " \t\r\n"
_FENCES = ("```", "~~~")
_PREAMBLE_LIMIT = 256


class _State(Enum):
    START = auto()  # nothing but white space so far
    PREAMBLE = auto()  # text came first, a block may still follow
    BLOCK_START = auto()  # behind an opening tag, nothing but white space so far
    BLOCK = auto()
    AFTER_BLOCK = auto()  # behind a closing tag, nothing but white space so far
    PASS = auto()  # all that follows is content


class ReasoningSplitter:
    """One per answer. Feed it the text in order, then finish it."""

    def __init__(self, *, opened_by_prompt: TagPair | None = None, pairs: tuple[TagPair, ...] = DEFAULT_PAIRS) -> None:
        """opened_by_prompt: the pair whose opening tag ends the prompt, if any; it need not be among `pairs`."""
        self._openings = {pair.opening: pair for pair in pairs}
        self._answer_openings = tuple(opening for pair in pairs for opening in pair.answer_openings)
        self._starters = (*self._openings, *self._answer_openings)
        self._line_starters = (*self._openings, *_FENCES)
        self._state = _State.START if opened_by_prompt is None else _State.BLOCK_START
        self._pair = opened_by_prompt
        self._block = _BlockText(is_first=True)
        self._pending = ""  # undecided text: the beginning of something that may become a tag
        self._blank: list[str] = []  # white space in front of `_pending` that is dropped if a block follows
        self._preamble_length = 0
        self._is_line_start = True
        self._block_count = int(self.is_reasoning)

    @property
    def is_passing(self) -> bool:
        """True when all that follows is content, so that the caller need not feed it here any more."""
        return self._state is _State.PASS

    @property
    def is_reasoning(self) -> bool:
        """True while the text belongs to a block of thinking."""
        return self._state in (_State.BLOCK_START, _State.BLOCK)

    @property
    def block_count(self) -> int:
        """How many blocks of thinking have begun."""
        return self._block_count

    @property
    def is_undecided(self) -> bool:
        """True while the last text may still turn out to be an opening tag."""
        return self._state in (_State.START, _State.AFTER_BLOCK) or bool(self._pending)

    def feed(self, text: str) -> list[AnswerPiece]:
        """Take the next piece of the answer; return what is settled, in order."""
        if self._state is _State.PASS:
            return [ContentText(text)] if text else []

        text = self._pending + text
        pieces: list[AnswerPiece] = []
        position = 0
        is_settled = False

        while position < len(text) and not is_settled:
            position, is_settled = self._step(text, position, pieces)

        self._pending = text[position:]
        return pieces

    def finish(self) -> list[AnswerPiece]:
        """The answer ends here: return what was held back."""
        pieces: list[AnswerPiece] = []

        if self.is_reasoning:
            _add_reasoning(pieces, self._block.add(self._pending))
        else:
            _add_content(pieces, self._take_blank() + self._pending)

        self._pending = ""
        self._state = _State.PASS
        return pieces

    def _step(self, text: str, position: int, pieces: list[AnswerPiece]) -> tuple[int, bool]:
        """Do one thing. Returns how far the text is consumed, and whether the rest has to wait for more text."""
        match self._state:
            case _State.START | _State.AFTER_BLOCK:
                return self._step_start(text, position, pieces)

            case _State.PREAMBLE:
                return self._step_preamble(text, position, pieces)

            case _State.BLOCK_START:
                return self._step_block_start(text, position)

            case _State.BLOCK:
                return self._step_block(text, position, pieces)

            case _State.PASS:
                _add_content(pieces, text[position:])
                return len(text), True

    def _step_start(self, text: str, position: int, pieces: list[AnswerPiece]) -> tuple[int, bool]:
        visible = _skip_white_space(text, position)
        self._blank.append(text[position:visible])

        if visible == len(text):
            return visible, True

        starter = _starter_at(text, visible, self._starters)

        if starter is not None:
            self._begin_after(starter)
            return visible + len(starter), False

        if _may_begin(text, visible, self._starters):
            return visible, True

        _add_content(pieces, self._take_blank())
        self._state = _State.PASS if self._state is _State.AFTER_BLOCK else _State.PREAMBLE
        return visible, False

    def _begin_after(self, starter: str) -> None:
        """A tag stood where a block may begin: begin the block, or the answer."""
        self._blank.clear()
        pair = self._openings.get(starter)
        self._pair = pair
        self._block_count += pair is not None
        self._state = _State.PASS if pair is None else _State.BLOCK_START

    def _step_preamble(self, text: str, position: int, pieces: list[AnswerPiece]) -> tuple[int, bool]:
        if self._preamble_length >= _PREAMBLE_LIMIT:
            self._state = _State.PASS
            return position, False

        if not self._is_line_start:
            return self._pass_line(text, position, pieces), False

        visible = _skip_white_space(text, position)

        if visible > position:
            return self._pass_preamble(text, position, visible, pieces), False

        starter = _starter_at(text, visible, self._line_starters)

        if starter in self._openings:
            self._begin_after(starter)
            return visible + len(starter), False

        if starter is not None:
            self._state = _State.PASS
            return visible, False

        self._is_line_start = _may_begin(text, visible, self._line_starters)
        return visible, self._is_line_start

    def _pass_line(self, text: str, position: int, pieces: list[AnswerPiece]) -> int:
        line_end = text.find("\n", position)
        self._is_line_start = line_end >= 0
        return self._pass_preamble(text, position, len(text) if line_end < 0 else line_end + 1, pieces)

    def _pass_preamble(self, text: str, position: int, end: int, pieces: list[AnswerPiece]) -> int:
        self._preamble_length += end - position
        _add_content(pieces, text[position:end])
        return end

    def _step_block_start(self, text: str, position: int) -> tuple[int, bool]:
        """A model often repeats the opening tag that stands before the block: drop it, once."""
        opening = self._current_pair().opening
        visible = _skip_white_space(text, position)
        self._block.add(text[position:visible])

        if visible == len(text) or (len(text) - visible < len(opening) and opening.startswith(text[visible:])):
            return visible, True

        self._state = _State.BLOCK
        return visible + len(opening) if text.startswith(opening, visible) else visible, False

    def _step_block(self, text: str, position: int, pieces: list[AnswerPiece]) -> tuple[int, bool]:
        closing = self._current_pair().closing
        end = text.find(closing, position)

        if end < 0:
            kept_from = _unfinished_tag_start(text, position, closing)
            _add_reasoning(pieces, self._block.add(text[position:kept_from]))
            return kept_from, True

        _add_reasoning(pieces, self._block.add(text[position:end]))
        self._block = _BlockText(is_first=self._block.is_first and not self._block.has_text)
        self._state = _State.AFTER_BLOCK
        return end + len(closing), False

    def _current_pair(self) -> TagPair:
        if self._pair is None:
            raise AssertionError("no block of thinking is open")

        return self._pair

    def _take_blank(self) -> str:
        blank = "".join(self._blank)
        self._blank.clear()
        return blank.lstrip(_NEWLINES) if self._state is _State.AFTER_BLOCK else blank


class _BlockText:
    """The text of one block, without the newlines at its ends."""

    def __init__(self, *, is_first: bool) -> None:
        self.is_first = is_first
        self.has_text = False
        self._waiting: list[str] = []  # white space that is dropped if the block ends here

    def add(self, text: str) -> str:
        """Take the next text of the block and return what surely belongs to the thinking."""
        settled = text.rstrip(_NEWLINES)

        if not settled or (not self.has_text and not settled.strip(_WHITE_SPACE)):
            self._waiting.append(text)
            return ""

        result = "".join(self._waiting) + settled
        # A list, not a string: a long run of newlines that come one by one must not be copied each time.
        self._waiting = [text[len(settled) :]]

        if self.has_text:
            return result

        self.has_text = True
        return ("" if self.is_first else "\n\n") + result.lstrip(_NEWLINES)


def _skip_white_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in _WHITE_SPACE:
        position += 1

    return position


def _starter_at(text: str, position: int, starters: tuple[str, ...]) -> str | None:
    return next((starter for starter in starters if text.startswith(starter, position)), None)


def _may_begin(text: str, position: int, starters: tuple[str, ...]) -> bool:
    """True if all that is left of the text is the beginning of a starter."""
    rest_length = len(text) - position
    return any(rest_length < len(starter) and starter.startswith(text[position:]) for starter in starters)


def _unfinished_tag_start(text: str, position: int, tag: str) -> int:
    """Where the longest beginning of `tag` at the end of the text starts; the length of the text if there is none."""
    start = text.find(tag[0], max(position, len(text) - len(tag) + 1))

    while start >= 0 and not tag.startswith(text[start:]):
        start = text.find(tag[0], start + 1)

    return len(text) if start < 0 else start


def _add_reasoning(pieces: list[AnswerPiece], text: str) -> None:
    if text:
        pieces.append(ReasoningText(text))


def _add_content(pieces: list[AnswerPiece], text: str) -> None:
    if text:
        pieces.append(ContentText(text))
