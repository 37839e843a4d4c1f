"""Cut a text at the first stop string, while the text is still growing.

Used by the answer pipeline, in the front's event loop; nothing blocks. The cost is linear in the text, whatever the stop strings are:
each of them is followed by an automaton of its own (Knuth, Morris and Pratt's failure table).
"""

from collections.abc import Sequence

_NOT_FOUND = -1


class StopMatcher:
    """Hands text on up to the first match of any stop string. The match and what follows it are dropped.

    First means the smallest position at which a match begins. What is held back is never more than could still become a match, so an
    ordinary text passes at once. The result does not depend on how the text was cut into pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """stops: each at least one character; ValueError otherwise. None at all is allowed and passes everything."""
        if "" in stops:
            raise ValueError("a stop string must not be empty")

        self._automata = [_Automaton(stop) for stop in dict.fromkeys(stops)]
        self._held = ""
        self._length = 0  # characters fed so far
        self._match_start = _NOT_FOUND
        self._is_stopped = False

    @property
    def is_stopped(self) -> bool:
        """True once a match is certain; all later text is dropped, so that the generation may end."""
        return self._is_stopped

    def feed(self, text: str) -> str:
        """Take the next piece and return the text that is now certain to be in front of any match. May be empty."""
        if self._is_stopped:
            return ""

        self._length += len(text)
        earliest_start = self._length

        for automaton in self._automata:
            end = automaton.advance(text)

            if end != _NOT_FOUND:
                self._note_match(self._length - len(text) + end - automaton.length)

            if not automaton.has_matched:
                earliest_start = min(earliest_start, self._length - automaton.state)

        return self._release(text, earliest_start)

    def finish(self) -> str:
        """The text ends here: return what was held back, up to the match if there is one."""
        if self._is_stopped:
            return ""

        tail = self._held

        if self._match_start != _NOT_FOUND:
            tail = tail[: self._match_start - self._length + len(tail)]
            self._is_stopped = True

        self._held = ""
        return tail

    def _note_match(self, start: int) -> None:
        if self._match_start == _NOT_FOUND or start < self._match_start:
            self._match_start = start

    def _release(self, text: str, earliest_start: int) -> str:
        """Let go of all that lies before `earliest_start`, where the first unfinished match begins, and before the match that was found."""
        held = self._held + text if self._held else text
        held_start = self._length - len(held)

        if self._match_start == _NOT_FOUND:
            cut = earliest_start - held_start
        else:
            # A longer stop string that began earlier may still win over the one that was found.
            self._is_stopped = earliest_start >= self._match_start
            cut = min(earliest_start, self._match_start) - held_start

        self._held = "" if self._is_stopped else held[cut:]
        return held[:cut]


class _Automaton:
    """How much of one stop string the end of the text matches."""

    def __init__(self, stop: str) -> None:
        self._stop = stop
        self._fallbacks = _failure_table(stop)
        self.length = len(stop)
        self.state = 0  # characters of the stop string that the end of the text matches
        self.has_matched = False

    def advance(self, text: str) -> int:
        """Follow the text. Returns the offset behind the match in it, or -1. After the first match the automaton rests."""
        if self.has_matched:
            return _NOT_FOUND

        stop = self._stop
        state = self.state
        position = 0

        while position < len(text):
            if state == 0:
                position = text.find(stop[0], position)

                if position < 0:
                    break

            state = self._next_state(state, text[position])
            position += 1

            if state == self.length:
                self.has_matched = True
                self.state = 0
                return position

        self.state = state
        return _NOT_FOUND

    def _next_state(self, state: int, character: str) -> int:
        while state and self._stop[state] != character:
            state = self._fallbacks[state - 1]

        return state + 1 if self._stop[state] == character else state


def _failure_table(stop: str) -> list[int]:
    """For each prefix of `stop`: the length of its longest proper prefix that is also its end."""
    table = [0] * len(stop)
    length = 0

    for index in range(1, len(stop)):
        while length and stop[index] != stop[length]:
            length = table[length - 1]

        if stop[index] == stop[length]:
            length += 1

        table[index] = length

    return table
