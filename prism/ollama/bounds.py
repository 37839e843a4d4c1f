"""How long the Ollama daemon is waited for, and how much of it is read. Defaults suit a daemon on this machine; tests have others."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaBounds:
    """connect_s: to make a connection. list_s: for the whole list of installed models.

    idle_s: between two lines, and before the first: a daemon loads a model of many gigabytes in that time, so it is long.
    line_bytes, answer_bytes, error_bytes: of one line, of a whole answer, of an answer that is an error.
    """

    connect_s: float = 2.0
    list_s: float = 2.0
    idle_s: float = 300.0
    line_bytes: int = 1 << 20
    answer_bytes: int = 1 << 26
    error_bytes: int = 1 << 16
