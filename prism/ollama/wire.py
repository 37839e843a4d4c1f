"""What the Ollama daemon sends, as types: its native API, as its public documentation has it. Unknown fields are ignored. Pure.

Fields that older daemons leave out, or leave out when they are zero, have a default.
"""

from typing import Annotated, TypeVar

import msgspec

from prism.ollama.errors import BadDaemonAnswer, DaemonRefused

T = TypeVar("T")


class Function(msgspec.Struct, frozen=True):
    """arguments: an object, or a text of JSON from some models; kept as it came, so that no number in it changes."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    arguments: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class Call(msgspec.Struct, frozen=True):
    """One call of a tool, complete."""

    function: Function


class Message(msgspec.Struct, frozen=True):
    """What one line adds to the answer."""

    content: str | None = None
    thinking: str | None = None
    tool_calls: list[Call] | None = None


class Line(msgspec.Struct, frozen=True):
    """What all lines may be instead: an error. error: a text; others have been seen."""

    error: object = None


class ChatLine(Line, frozen=True):
    """A line of /api/chat. The last one is done and has the figures."""

    message: Message | None = None
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None


class PullLine(Line, frozen=True):
    """A line of /api/pull. total, completed: bytes of the file with this digest."""

    status: str = ""
    digest: str = ""
    total: int = 0
    completed: int = 0


class Tag(msgspec.Struct, frozen=True):
    """An installed model of /api/tags. size: bytes. modified_at: RFC 3339."""

    name: str = ""
    size: int = 0
    modified_at: str = ""


class Tags(msgspec.Struct, frozen=True):
    """/api/tags."""

    models: list[Tag] | None = None


class Embeddings(msgspec.Struct, frozen=True):
    """/api/embed: one vector for each input, in order."""

    embeddings: list[list[float]] | None = None
    prompt_eval_count: int | None = None


class _Envelope(msgspec.Struct, frozen=True):
    error: object = None


_TEXT = msgspec.json.Decoder(str)
_ENVELOPE = msgspec.json.Decoder(_Envelope)


def decoded(raw: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """Return an answer, or one line of it. Raises BadDaemonAnswer, and DaemonRefused for a line that is an error."""
    try:
        answer = decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        # msgspec says which field is at fault; the bytes themselves may be anything.
        raise BadDaemonAnswer(f"it sent what is not of its API ({error})") from error

    if isinstance(answer, Line) and answer.error is not None:
        raise DaemonRefused(200, _text_of(answer.error))

    return answer


def arguments_text(function: Function) -> str:
    """Return the arguments of a call as a text of JSON. Raises BadDaemonAnswer."""
    raw = bytes(function.arguments)

    if raw in (b"", b"null"):
        return "{}"

    try:
        return _TEXT.decode(raw) if raw.startswith(b'"') else raw.decode()
    except ValueError as error:  # msgspec's errors and those of UTF-8 are ValueErrors
        raise BadDaemonAnswer(f"it sent arguments of the call '{function.name}' that are not JSON") from error


def error_text(body: bytes) -> str | None:
    """Return the words of an answer that is an error; None when it is not in the daemon's form."""
    try:
        return _text_of(_ENVELOPE.decode(body).error)
    except (msgspec.DecodeError, RecursionError):
        return None


def _text_of(error: object) -> str | None:
    """Return the text in one of the forms that were seen: a text, an object with a message, and either of them as JSON in a text."""
    if isinstance(error, dict):
        inner = error.get("message", error.get("error"))
        return inner if isinstance(inner, str) else None

    if not isinstance(error, str):
        return None

    if error.lstrip().startswith("{"):
        return error_text(error.encode("utf-8", "replace")) or error

    return error.strip() or None
