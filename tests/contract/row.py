"""What a row of the documents is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row or sentence.

    id: what cases name. section: of the document. says: the row in our own words.
    tests: where else it is proved, as `folder/file.py::test`, from the folder of all tests.
    later: why it is not proved yet; None for a row that is.
    """

    id: str
    section: str
    says: str
    tests: tuple[str, ...] = ()
    later: str | None = None


def rows_of(section: str, *rows: Row | tuple[str, str] | tuple[str, str, str]) -> tuple[Row, ...]:
    """Return the rows of one section. Each (id, words), or (id, words, tests divided by blanks), or a whole Row."""
    return tuple(_row_of(section, row) for row in rows)


def _row_of(section: str, row: Row | tuple[str, str] | tuple[str, str, str]) -> Row:
    match row:
        case Row():
            return row

        case (row_id, says):
            return Row(id=row_id, section=section, says=says)

        case (row_id, says, tests):
            return Row(id=row_id, section=section, says=says, tests=tuple(tests.split()))


def later(section: str, row_id: str, says: str, why: str) -> Row:
    """Return a row that waits for other work."""
    return Row(id=row_id, section=section, says=says, later=why)
