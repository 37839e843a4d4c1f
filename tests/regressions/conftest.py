"""Whole servers for tests of faults that others have had."""

from tests.whole.conftest import start_process, start_server

__all__ = ["start_process", "start_server"]
