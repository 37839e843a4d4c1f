"""What one rendering of a chat template may cost, and the count of what it has cost so far.

Owned by `template.py`, which calls it from every loop, call, operator, filter and output of a template; `template_operations.py` asks it
before each operation that can grow a text. Runs in a thread of the front, which nothing could stop from outside: what is not counted
here is not bounded. Nothing blocks.
"""

import time
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView

MAX_TEXT_CHARS = 8 << 20  # longest text of a template's own making; what the client sent comes on top
MAX_CPU_S = 0.5
_MAX_STEPS = 2_000_000
_MAX_NODES = 300_000  # of one nested value, counted as often as it is reachable
_STEPS_BETWEEN_CLOCK_LOOKS = 64
_CHARS_PER_STEP = 4_096


class RenderLimitExceeded(Exception):
    """The template asked for more than a rendering may cost. The message names the limit."""


class RenderBudget:
    """The limits of one rendering. A step is about a microsecond of work, a char is one character of a text that comes into being."""

    def __init__(self, *, input_chars: int = 0, cpu_s: float = MAX_CPU_S) -> None:
        """input_chars: size of what the client sent: a template that only copies it must never run into a limit."""
        self.max_text_chars = MAX_TEXT_CHARS + input_chars
        self._chars_left = 4 * MAX_TEXT_CHARS + 16 * input_chars
        self._steps_left = _MAX_STEPS + input_chars
        self._steps_to_clock = _STEPS_BETWEEN_CLOCK_LOOKS
        # CPU time of this thread: a busy machine must not make an honest template fail.
        self._end_s = time.thread_time() + cpu_s

    def step(self, steps: int = 1) -> None:
        """Count work that is done or about to be done. Raises RenderLimitExceeded."""
        self._steps_to_clock -= steps

        if self._steps_to_clock < 0:
            self._look_at_clock()

    def grow(self, chars: int) -> None:
        """Count a text (or list items, 8 chars each) before it is made. Raises RenderLimitExceeded."""
        if chars > self.max_text_chars:
            raise RenderLimitExceeded(f"a text of {chars} characters, past the limit of {self.max_text_chars}")

        self._chars_left -= chars

        if self._chars_left < 0:
            raise RenderLimitExceeded("more text in all than a rendering may make")

        self.step(1 + chars // _CHARS_PER_STEP)

    def metered(self, values: Iterable[object]) -> Iterator[object]:
        """Yield the values, one step each."""
        for value in values:
            self.step()
            yield value

    def weigh(self, value: object, *, indent: int = 0) -> int:
        """Return about how many characters a nested value has when it is written out; its size as it is compared or hashed, too.

        A list that holds one list twice, which holds one twice, and so on, is small in memory and endless in any other respect: the walk
        counts it as often as it is reached, and gives up early. indent: characters that each level is moved in by.
        """
        if isinstance(value, str):
            return len(value) + 2

        chars = 0
        nodes = 0
        rest: list[tuple[object, int]] = [(value, 0)]

        while rest:
            current, depth = rest.pop()
            nodes += 1
            chars += 4 + depth * indent

            if isinstance(current, str):
                chars += len(current)
            elif isinstance(current, Mapping):
                rest.extend((part, depth + 1) for item in current.items() for part in item)
            elif isinstance(current, list | tuple | KeysView | ValuesView | ItemsView):
                rest.extend((part, depth + 1) for part in current)

            if nodes + len(rest) > _MAX_NODES:
                raise RenderLimitExceeded(f"a value of more than {_MAX_NODES} parts")

        self.step(nodes // 4)
        return chars

    def text(self, value: object) -> str:
        """Return what a template writes for a value, after counting it."""
        if isinstance(value, str):
            self.grow(len(value))
            return value

        if isinstance(value, Mapping | list | tuple | KeysView | ValuesView | ItemsView):
            self.grow(self.weigh(value))

        return str(value)

    def _look_at_clock(self) -> None:
        self._steps_left -= _STEPS_BETWEEN_CLOCK_LOOKS - self._steps_to_clock
        self._steps_to_clock = _STEPS_BETWEEN_CLOCK_LOOKS

        if self._steps_left < 0:
            raise RenderLimitExceeded("more steps than a rendering may take")

        if time.thread_time() > self._end_s:
            raise RenderLimitExceeded("more processor time than a rendering may take")
