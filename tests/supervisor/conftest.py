"""Fixtures for the tests of the supervisor."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def shared_dir() -> Iterator[Path]:
    """A folder that other users can reach and write, which those of pytest are not."""
    folder = Path(tempfile.mkdtemp(prefix="prism-shared-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)
