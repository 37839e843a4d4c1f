"""The servers that are fuzzed: one on the stand-in worker, one on the real engine with a tiny model. Both with a template for tools."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from prism.export.tiny_model import write_tiny_model
from tests.contract.conftest import TEMPLATE
from tests.fuzz.valid_bodies import MODEL
from tests.served import serving, write_model

# Small, so that a body which asks for as many tokens as there are is soon answered.
_CONTEXT_LENGTH = 1024
# A hostile body must not make the others wait for a place.
_QUEUE = {"PRISM_MAX_QUEUE": "64"}


@contextlib.contextmanager
def stand_in_server(folder: Path) -> Iterator[str]:
    """Serve a scripted model."""
    write_model(folder, MODEL, template=TEMPLATE)

    with serving(folder, preload=MODEL, **_QUEUE) as base_url:
        yield base_url


@contextlib.contextmanager
def engine_server(folder: Path) -> Iterator[str]:
    """Serve a real model of random weights."""
    write_tiny_model(folder / "models" / MODEL, context_length=_CONTEXT_LENGTH, chat_template=TEMPLATE)

    with serving(folder, preload=MODEL, program="tests.fuzz.serve_with_engine", **_QUEUE) as base_url:
        yield base_url
