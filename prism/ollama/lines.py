"""Divides bytes that come in pieces into lines of JSON. Used by `prism.ollama.daemon`, in the front's event loop. Pure."""

import itertools

from prism.ollama.errors import BadDaemonAnswer


class LineSplitter:
    """One per answer. Divides at the byte of a newline, so that a character which came in two pieces is whole again."""

    def __init__(self, most_bytes: int) -> None:
        """most_bytes: in one line. A longer one is refused before it is kept."""
        self._most_bytes = most_bytes
        self._rest = b""
        self._is_too_long = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes; return the lines that are complete, blank ones left out.

        Raises BadDaemonAnswer for a line that is too long, once those in front of it were returned.
        """
        if self._is_too_long:
            raise BadDaemonAnswer(f"it sent a line of more than {self._most_bytes} bytes")

        *lines, rest = data.split(b"\n")

        if lines:
            lines[0] = self._rest + lines[0]
            self._rest = rest
        else:
            self._rest += rest

        good = list(itertools.takewhile(self._is_short, lines))
        self._is_too_long = len(good) < len(lines) or not self._is_short(self._rest)
        found = [line for line in good if line.strip()]
        return self.feed(b"") if self._is_too_long and not found else found

    def finish(self) -> list[bytes]:
        """The bytes end here: return the last line if it lacks its newline."""
        rest, self._rest = self._rest, b""
        return [rest] if rest.strip() else []

    def _is_short(self, line: bytes) -> bool:
        return len(line) <= self._most_bytes
