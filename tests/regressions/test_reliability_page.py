"""docs/reliability.md has every failure once, names tests that are there, and tells the bounds of the code."""

import re
from dataclasses import asdict
from typing import Any

import pytest

from prism import descriptors
from prism.http import (
    app,
    body,
    body_room,
    connection_bound,
    listener,
    protocol,
    self_watch,
    services,
    socket_options,
)
from prism.ollama.bounds import OllamaBounds
from prism.settings import ServeSettings
from supervisor import open_turns, worker
from supervisor.poison_prompts import PoisonBounds
from supervisor.restart_settings import RestartSettings
from supervisor.settings import LoadLockSettings, MemorySettings, RecycleSettings, SupervisorSettings
from supervisor.watch_bounds import WatchBounds
from tests.regressions.page import assert_every_row_says_what_proves_it, read_page

EXPECTED = [f"F{n:02}" for n in range(1, 69)]
PAGE = read_page("reliability.md", re.compile(r"\bF\d\d\b"))
BOUND = re.compile(r"^\| [^|]+ \| ([\d,.]+) \| `(\w+)\.(\w+)` \|$", re.MULTILINE)
# Settings whose defaults need no folder are made; of the supervisor's own the class knows them.
# Any: modules and settings, asked for a name.
OWNERS: dict[str, Any] = {
    **{type(made).__name__: made for made in (WatchBounds(), RestartSettings(), PoisonBounds(), OllamaBounds())},
    **{type(made).__name__: made for made in (LoadLockSettings(), MemorySettings(), RecycleSettings())},
    **{module.__name__.rpartition(".")[2]: module for module in (app, body, self_watch, services, open_turns, worker)},
    **{module.__name__.rpartition(".")[2]: module for module in (body_room, connection_bound, descriptors, listener)},
    **{module.__name__.rpartition(".")[2]: module for module in (protocol, socket_options)},
}
# Settings that need folders to be made; their classes know the defaults.
CLASSES: dict[str, Any] = {made.__name__: made for made in (SupervisorSettings, ServeSettings)}


def value_of(owner: str, name: str) -> float:
    if owner in CLASSES:
        default: Any = CLASSES[owner].__dataclass_fields__[name].default  # a field may have none: not a number
        return float(default)

    return float(getattr(OWNERS[owner], name))


def test_every_failure_is_on_the_page_once() -> None:
    assert sorted(PAGE.ids()) == EXPECTED


def test_every_row_says_what_proves_it() -> None:
    assert len(PAGE.rows()) > 40
    assert_every_row_says_what_proves_it(PAGE)


@pytest.mark.parametrize("file", PAGE.files())
def test_every_named_test_is_there(file: str) -> None:
    assert PAGE.missing_tests(file) == []


def test_bounds_are_those_of_the_code() -> None:
    told = {(owner, name): float(value.replace(",", "")) for value, owner, name in BOUND.findall(PAGE.text)}
    assert told == {(owner, name): value_of(owner, name) for owner, name in told}


def test_no_bound_of_the_watch_or_of_restarts_is_left_out() -> None:
    told = {(owner, name) for _, owner, name in BOUND.findall(PAGE.text)}
    settings = (WatchBounds(), RestartSettings(), PoisonBounds())
    assert told >= {(type(made).__name__, name) for made in settings for name in asdict(made)}
