"""The models that are installed: lists them, and finds the one that a name means.

Used by the HTTP handlers and the command line.

The search path is looked at afresh, so a model that appears while the server runs is found: what was seen is believed
for five seconds at most, not at all once a folder's modification time has changed, and never for a name that is not
in it. A walk blocks for some milliseconds per hundred entries (bounded, see `prism.model_walk`), so a coroutine asks
through `prism.async_catalog`. Thread-safe: one walk at a time.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from prism.aliases import installed_names
from prism.model_entry import ModelEntry
from prism.model_walk import Memory, Scan, walk_models

BELIEVED_FOR_S = 5.0
_NAMES_IN_A_MESSAGE = 20
DEMO_MODEL = "smollm2-135m"
_PAGED_SUFFIX = "-paged"
PAGED_DEMO_MODEL = DEMO_MODEL + _PAGED_SUFFIX


class CatalogError(Exception):
    """A name does not lead to one model."""


class ModelNotFound(CatalogError):
    """No installed model is meant by the name."""

    def __init__(self, name: str, installed: Sequence[str]) -> None:
        super().__init__(_not_found_message(name, installed))
        self.name = name


class AmbiguousModel(CatalogError):
    """The name is a part of several models' names."""

    def __init__(self, name: str, names: Sequence[str]) -> None:
        super().__init__(f"model {name!r} is ambiguous: it matches {', '.join(names)}")
        self.name = name
        self.names = tuple(names)


class Catalog:
    """Models below the folders of a search path."""

    def __init__(
        self,
        search_path: Sequence[Path],
        *,
        prefers_cuda: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """prefers_cuda: which build an alias stands for when both are installed."""
        self._search_path = tuple(search_path)
        self._prefers_cuda = prefers_cuda
        self._clock = clock
        self._lock = threading.Lock()
        self._memory: Memory = {}
        self._scan: Scan | None = None
        self._scanned_at = 0.0

    def models(self) -> tuple[ModelEntry, ...]:
        """Return every whole model, in the order of the search path."""
        return self.scan().models

    def scan(self) -> Scan:
        """Return what is on the search path, the folders that were skipped included."""
        with self._lock:
            return self._fresh_scan()

    def resolve(self, name: str) -> ModelEntry:
        """Return the model that a client or operator means. Raises ModelNotFound or AmbiguousModel."""
        wanted = name.strip()

        with self._lock:
            scan = self._fresh_scan()

            try:
                return self._find(wanted, scan.models)
            except ModelNotFound:
                # A file that was completed in place changes no folder's time: look once more before saying no.
                return self._find(wanted, self._walk().models)

    def find_exact(self, name: str) -> ModelEntry | None:
        """Return the model with this id or in this folder; None when only an alias or a part of a name could lead to one."""
        wanted = name.strip()

        with self._lock:
            models = self._fresh_scan().models

        return (_by_id(wanted, models) or _by_path(wanted, models)) if wanted else None

    def _fresh_scan(self) -> Scan:
        scan = self._scan

        if scan is None or self._clock() - self._scanned_at >= BELIEVED_FOR_S or scan.is_outdated():
            return self._walk()

        return scan

    def _walk(self) -> Scan:
        self._scanned_at = self._clock()
        self._scan = walk_models(self._search_path, self._memory)
        return self._scan

    def _find(self, wanted: str, models: Sequence[ModelEntry]) -> ModelEntry:
        """Try, in this order: the id, the folder's path, an alias, a part of exactly one id."""
        if not wanted:
            raise ModelNotFound(wanted, [model.id for model in models])

        found = _by_id(wanted, models) or _by_path(wanted, models)

        if found is not None:
            return found

        for installed in installed_names(wanted, prefers_cuda=self._prefers_cuda):
            found = _by_id(installed, models)

            if found is not None:
                return found

        return _by_part(wanted, models)


def _by_id(wanted: str, models: Sequence[ModelEntry]) -> ModelEntry | None:
    """Prefer the exact spelling, since two folders may differ in case alone."""
    folded = wanted.casefold()
    exact = (model for model in models if model.id == wanted)
    return next(exact, None) or next((model for model in models if model.id.casefold() == folded), None)


def _by_path(wanted: str, models: Sequence[ModelEntry]) -> ModelEntry | None:
    """Compare the text of paths alone. A client's path is never asked the system about: that may wait for a network, or mount it."""
    if not wanted.startswith("/"):
        return None

    path = os.path.normpath(wanted)
    return next(
        (model for model in models if path in (os.path.normpath(model.path), os.path.realpath(model.path))), None
    )


def _by_part(wanted: str, models: Sequence[ModelEntry]) -> ModelEntry:
    folded = wanted.casefold()
    matches = _without_twins([model for model in models if folded in model.id.casefold()])

    if len(matches) > 1:
        raise AmbiguousModel(wanted, [model.id for model in matches])

    if not matches:
        raise ModelNotFound(wanted, [model.id for model in models])

    return matches[0]


def _without_twins(matches: Sequence[ModelEntry]) -> Sequence[ModelEntry]:
    """Leave out the paged form of a model whose ordinary form matches too: only its own name means it."""
    twins = {model.id.casefold() + _PAGED_SUFFIX for model in matches}
    return [model for model in matches if model.id.casefold() not in twins]


def _not_found_message(name: str, installed: Sequence[str]) -> str:
    if not installed:
        return f"model {name!r} was not found: no model is installed; `prism pull {DEMO_MODEL}` brings a small one"

    shown = ", ".join(installed[:_NAMES_IN_A_MESSAGE])
    rest = len(installed) - _NAMES_IN_A_MESSAGE
    return f"model {name!r} was not found; installed: {shown}" + (f" and {rest} more" if rest > 0 else "")
