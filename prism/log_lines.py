"""Text of others on its way to the log or to a terminal: one record is one line, and nothing in it steers what shows it.

What is logged and printed holds names of folders, words of models, of workers and of servers. A line break in them would forge a line, an
escape sequence would colour, hide or rewrite what the operator reads. Set up by `prism serve`; `printable` also by the other commands.
"""

import logging

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# Before each line of a traceback, whose last one quotes the error: no line of a log begins like a record and is none.
_MARGIN = "  | "


def printable(text: str) -> str:
    """Return the text with every character that is not for the eye written out, such as \\x1b."""
    if text.isprintable():
        return text

    return "".join(letter if letter.isprintable() else _written_out(letter) for letter in text)


def set_up_logging(level: str) -> None:
    """Send what is logged to stderr. level: a name that `logging` knows, in any case."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(_FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[handler])


class LineFormatter(logging.Formatter):
    """Makes one printable line of each record, and indented lines of a traceback below it."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: "logging._SysExcInfoType") -> str:
        """Return the lines of a traceback."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        """Return the lines of a stack."""
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(_MARGIN + printable(line) for line in text.split("\n"))


def _written_out(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
