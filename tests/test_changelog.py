"""The changelog tells the version that runs."""

import re
from pathlib import Path

from prism import __version__

CHANGELOG = Path(__file__).resolve().parent.parent / "CHANGELOG.md"


def test_the_newest_entry_is_the_version_that_runs() -> None:
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", CHANGELOG.read_text(), re.MULTILINE)
    assert versions[0] == __version__


def test_every_entry_has_a_date_or_is_being_written() -> None:
    headings = re.findall(r"^## .*$", CHANGELOG.read_text(), re.MULTILINE)
    entry = re.compile(r"## \[(Unreleased|\d+\.\d+\.\d+\] - (\d{4}-\d{2}-\d{2}|unreleased))")
    assert [heading for heading in headings if not entry.match(heading)] == []
