"""Says what a client got, and what is wrong with it: exactly one terminal answer for each request, and nothing after it.

Pure. Reads the raw bytes of one connection's answer by the contract of the API alone; imports nothing of the server's.

A whole answer is one HTTP answer with one JSON object: a completion with its finish reason, or an error. A stream is events with exactly
one terminal (a finish reason or an error event), then exactly one `[DONE]`, then the end.
"""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from benchmarks.chaos.http_answer import HttpAnswer, Malformed, read_answer

ANSWERED = "answered"
UNFINISHED = "unfinished"
_ENDS = frozenset(("stop", "length", "tool_calls"))
_DONE = "[DONE]"


class Fault(StrEnum):
    """What can be wrong with an answer."""

    NO_HTTP = "no HTTP answer"
    SECOND_ANSWER = "bytes after the end of the answer"
    NO_TERMINAL = "no terminal answer"
    TWO_TERMINALS = "two terminal answers"
    NO_DONE = "no [DONE]"
    TWO_DONES = "two [DONE]"
    AFTER_DONE = "something after [DONE]"
    AFTER_TERMINAL = "text after the terminal answer"
    DONE_TOO_SOON = "[DONE] before a terminal answer"
    BAD_EVENT = "an event that is none"
    BAD_BODY = "a body that is none"
    OTHER_ID = "an event with another id"
    WRONG_TEXT = "text of something else"
    LEFT_OPEN = "a connection that stays open after its end"
    REFUSED = "a connection that is refused"


# What makes a request have more than one end.
DOUBLE = frozenset((Fault.SECOND_ANSWER, Fault.TWO_TERMINALS, Fault.TWO_DONES, Fault.AFTER_DONE, Fault.AFTER_TERMINAL))


@dataclass(slots=True)
class Reading:
    """outcome: ANSWERED, the code of the error, or UNFINISHED. text: the answer, as far as it has come. faults: with what was seen."""

    outcome: str = UNFINISHED
    text: str = ""
    terminals: int = 0
    faults: list[tuple[Fault, str]] = field(default_factory=list)

    def complain(self, fault: Fault, seen: object = "") -> None:
        self.faults.append((fault, str(seen)[:200]))

    def end(self, outcome: str) -> None:
        """Note a terminal answer."""
        self.terminals += 1

        if self.terminals == 1:
            self.outcome = outcome
        else:
            self.complain(Fault.TWO_TERMINALS, outcome)


def read_exchange(data: bytes, *, is_over: bool, wants_stream: bool) -> Reading:
    """Judge what came for one request. is_over: it is all that will ever come, so that what is missing is missing."""
    reading = Reading()

    try:
        answer = read_answer(data)
    except Malformed as error:
        reading.complain(Fault.NO_HTTP, error)
        return reading

    if answer is None:
        if is_over:
            reading.complain(Fault.NO_TERMINAL, data)

        return reading

    if answer.rest:
        reading.complain(Fault.SECOND_ANSWER, answer.rest)

    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        _read_events(answer, reading)
        _check_end(reading, answer, is_over=is_over)

        if not wants_stream or answer.status != 200:
            reading.complain(Fault.BAD_BODY, f"a stream with status {answer.status}")
    elif answer.is_whole:
        _read_body(answer, reading, wants_stream=wants_stream)
    elif is_over:
        reading.complain(Fault.NO_TERMINAL, answer.body)

    return reading


def _read_events(answer: HttpAnswer, reading: Reading) -> None:
    blocks = answer.body.decode("utf-8", errors="replace").split("\n\n")
    events = _Events(reading)

    for block in blocks[:-1]:
        events.take(block)

    if answer.is_whole and blocks[-1]:
        reading.complain(Fault.BAD_EVENT, blocks[-1])

    reading.text = events.text


def _check_end(reading: Reading, answer: HttpAnswer, *, is_over: bool) -> None:
    """Complain of what is missing. An answer whose last chunk has come is over as well."""
    if not (is_over or answer.is_whole):
        return

    if reading.terminals == 0:
        reading.complain(Fault.NO_TERMINAL)

    if not answer.body.endswith(b"data: [DONE]\n\n") and b"data: [DONE]\n\n" not in answer.body:
        reading.complain(Fault.NO_DONE)

    if not answer.is_whole:
        reading.complain(Fault.NO_TERMINAL, "the last chunk did not come")


class _Events:
    """Takes the events of one stream in order."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._is_done = False
        self._id: object = None
        self.text = ""

    def take(self, block: str) -> None:
        if self._is_done:
            self._reading.complain(Fault.TWO_DONES if block == f"data: {_DONE}" else Fault.AFTER_DONE, block)
        elif block == f"data: {_DONE}":
            self._is_done = True

            if self._reading.terminals == 0:
                self._reading.complain(Fault.DONE_TOO_SOON)
        elif not block.startswith(":"):
            self._take_object(block)

    def _take_object(self, block: str) -> None:
        # Any: JSON of somebody else.
        event: Any = _object(block.removeprefix("data: ")) if block.startswith("data: ") else None

        if event is None:
            self._reading.complain(Fault.BAD_EVENT, block)
        elif "error" in event:
            self._reading.end(_code(event))
        else:
            self._take_chunk(event, block)

    def _take_chunk(self, event: Any, block: str) -> None:
        self._id = self._id if self._id is not None else event.get("id")

        if event.get("id") != self._id:
            self._reading.complain(Fault.OTHER_ID, block)

        for choice in event.get("choices") or ():
            text = _text(choice, "delta")

            if text and self._reading.terminals:
                self._reading.complain(Fault.AFTER_TERMINAL, block)

            self.text += text

            if choice.get("finish_reason") is not None:
                self._end(choice["finish_reason"])

    def _end(self, finish_reason: object) -> None:
        if finish_reason not in _ENDS:
            self._reading.complain(Fault.BAD_EVENT, finish_reason)

        self._reading.end(ANSWERED)


def _read_body(answer: HttpAnswer, reading: Reading, *, wants_stream: bool) -> None:
    body = _object(answer.body.decode("utf-8", errors="replace"))

    if body is None or ("error" in body) == (answer.status == 200) or (wants_stream and answer.status == 200):
        reading.complain(Fault.BAD_BODY, answer.body)
        return

    if "error" in body:
        reading.end(_code(body))
        return

    choices = body.get("choices") or [{}]
    reading.text = _text(choices[0], "message")

    if len(choices) != 1 or choices[0].get("finish_reason") not in _ENDS:
        reading.complain(Fault.NO_TERMINAL, answer.body)
    else:
        reading.end(ANSWERED)


def _object(text: str) -> Any:
    """Return one JSON object, None for anything else."""
    try:
        value = json.loads(text)
    except ValueError:
        return None

    return value if isinstance(value, dict) else None


def _text(choice: Any, place: str) -> str:
    return (choice.get(place) or {}).get("content") or choice.get("text") or ""


def _code(body: Any) -> str:
    error = body["error"]
    code = error.get("code") or error.get("type") if isinstance(error, dict) else None
    return str(code or "error without a code")
