"""One record is one line, whoever wrote the words in it."""

import io
import logging
from collections.abc import Iterator

import pytest

from prism.log_lines import LineFormatter, printable

HOSTILE = "a\r\nINFO forged\x1b[2J\x00\x07\x7f\x9b31m\u2028\u202e\ud800z"


@pytest.fixture
def written() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger of its own, and what it wrote."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter("%(levelname)s %(name)s: %(message)s"))
    logger = logging.Logger("made up")
    logger.addHandler(handler)
    yield logger, stream
    handler.close()


def test_a_record_is_one_printable_line(written: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = written
    logger.warning("model '%s' of %d", HOSTILE, 7)
    (line,) = stream.getvalue().splitlines()
    assert line.isprintable()
    assert line == (r"WARNING made up: model 'a\r\nINFO forged\x1b[2J\x00\x07\x7f\x9b31m\u2028\u202e\ud800z' of 7")


def test_no_line_of_a_traceback_looks_like_a_record(written: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = written

    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logger.exception("it %s", "failed", stack_info=True)

    first, *rest = stream.getvalue().splitlines()
    assert first == "ERROR made up: it failed"
    assert any("Traceback" in line for line in rest)
    assert all(line.startswith("  | ") and line.isprintable() for line in rest)


def test_words_of_every_language_stay_as_they_are() -> None:
    assert printable("Größe, 大小, \N{GRINNING FACE}") == "Größe, 大小, \N{GRINNING FACE}"
