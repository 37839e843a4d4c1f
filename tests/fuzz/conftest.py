"""The servers that are fuzzed, started once for all tests of this folder. Ending them checks their status and their log."""

from collections.abc import Iterator

import pytest

from tests.fuzz.fuzzed_servers import engine_server, stand_in_server


@pytest.fixture(scope="package")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a server whose worker plays a script."""
    with stand_in_server(tmp_path_factory.mktemp("stand-in")) as base_url:
        yield base_url


@pytest.fixture(scope="package")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a server with the real engine and a tiny model."""
    with engine_server(tmp_path_factory.mktemp("engine")) as base_url:
        yield base_url
