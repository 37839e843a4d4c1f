"""Walks the search path once and returns the models on it.

Called by `prism.catalog`, in whatever thread asked for the models.

Symbolic links to folders are followed (a Hugging Face cache is made of them), each folder is visited once, and depth
and number of entries are bounded, so a search path that points at a whole disk costs a bounded time. Blocks for a
`stat` or two per entry.
"""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from prism.model_entry import ModelEntry
from prism.model_folder import CONFIG_NAME, FolderFiles, NotAModel, read_model_folder, regular_files

logger = logging.getLogger(__name__)

MAX_DEPTH = 8
MAX_ENTRIES = 20_000
_UNFINISHED_SUFFIX = ".partial"
_VERSION_FOLDER = re.compile(r"v\d+")
_CACHED_REPOSITORY = re.compile(r"models--[^/]+--([^/]+)")

Fingerprint = tuple[tuple[str, int, int, int], ...]
# What was read from whole model folders in earlier walks, so that an unchanged one costs no more than its stats.
Memory = dict[Path, tuple[Fingerprint, ModelEntry]]


@dataclass(frozen=True, slots=True)
class SkippedFolder:
    """A folder that has a GenAI config but cannot be listed, and why."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Scan:
    """What one walk found.

    folder_times: each folder that was looked into or looked for, with its modification time in ns; None for one that
        is not there.
    """

    models: tuple[ModelEntry, ...]
    skipped: tuple[SkippedFolder, ...]
    folder_times: tuple[tuple[Path, int | None], ...]

    def is_outdated(self) -> bool:
        """Say whether something was added to, or taken from, a folder of the walk.

        What changes inside files does not show here.
        """
        return any(folder_time(path) != time_ns for path, time_ns in self.folder_times)


def folder_time(path: Path) -> int | None:
    """Return the modification time in ns, or None when there is nothing to see."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def model_id_of(folder: Path) -> str:
    """Name a model folder: its own name, `<parent>:v<n>` in a versioned layout, the repository's in a download cache."""
    name, parent = folder.name, folder.parent

    if _VERSION_FOLDER.fullmatch(name) and parent.name:
        return f"{parent.name}:{name}"

    repository = _CACHED_REPOSITORY.fullmatch(parent.parent.name)
    return repository.group(1) if repository and parent.name == "snapshots" else name


def walk_models(search_path: Sequence[Path], memory: Memory) -> Scan:
    """Look for models below each folder of the search path, in that order.

    The first of two models with one name wins.
    """
    walk = _Walk(memory)

    for root in search_path:
        walk.visit(root, MAX_DEPTH)

    if walk.entries_left <= 0:
        logger.warning("the model folders hold more than %d entries; what lies beyond was not searched", MAX_ENTRIES)

    # Only what still exists is worth remembering.
    memory.clear()
    memory.update(walk.remembered)
    return Scan(tuple(walk.models.values()), tuple(walk.skipped), tuple(walk.folder_times.items()))


class _Walk:
    """The state of one walk."""

    def __init__(self, memory: Memory) -> None:
        self.models: dict[str, ModelEntry] = {}
        self.skipped: list[SkippedFolder] = []
        self.folder_times: dict[Path, int | None] = {}
        self.remembered: Memory = {}
        self.entries_left = MAX_ENTRIES
        self._memory = memory
        self._visited: set[tuple[int, int]] = set()

    def visit(self, folder: Path, depth: int) -> None:
        if not self._enter(folder):
            return

        try:
            items = list(self._bounded_entries(folder))
        except OSError as error:
            logger.debug("%s was not searched for models: %s", folder, error.strerror)
            return

        if any(item.name == CONFIG_NAME for item in items):
            self._take_model(folder)
        elif depth > 0:
            # Real folders first: a link to a sibling must not take the sibling's name away.
            for item in sorted(filter(_may_hold_models, items), key=lambda item: (item.is_symlink(), item.name)):
                self.visit(folder / item.name, depth - 1)

    def _enter(self, folder: Path) -> bool:
        """Note the folder's time before it is read, so that what changes meanwhile is seen next time.

        False for a place seen before.
        """
        try:
            status = folder.stat()
        except OSError:
            self.folder_times[folder] = None
            return False

        identity = (status.st_dev, status.st_ino)
        is_new = identity not in self._visited
        self._visited.add(identity)
        self.folder_times[folder] = status.st_mtime_ns
        return is_new

    def _bounded_entries(self, folder: Path) -> Iterator[os.DirEntry[str]]:
        with os.scandir(folder) as items:
            for item in items:
                if self.entries_left <= 0:
                    return

                self.entries_left -= 1
                yield item

    def _take_model(self, folder: Path) -> None:
        model_id = model_id_of(folder)

        try:
            model = self._read(folder, model_id)
        except (NotAModel, OSError) as error:
            self.skipped.append(SkippedFolder(folder, str(error)))
            return

        if model_id in self.models:
            self.skipped.append(
                SkippedFolder(folder, f"{self.models[model_id].path} has the same name and comes first")
            )
            return

        self.models[model_id] = model

    def _read(self, folder: Path, model_id: str) -> ModelEntry:
        if not model_id.isprintable():
            raise NotAModel("the folder's name holds characters that cannot be written in an answer")

        files = regular_files(folder)
        fingerprint = _fingerprint(files)
        known = self._memory.get(folder)
        model = known[1] if known and known[0] == fingerprint else read_model_folder(folder, model_id, files)
        self.remembered[folder] = (fingerprint, model)
        return model


def _may_hold_models(item: os.DirEntry[str]) -> bool:
    if item.name.startswith(".") or item.name.endswith(_UNFINISHED_SUFFIX):
        return False

    try:
        return item.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _fingerprint(files: FolderFiles) -> Fingerprint:
    return tuple(sorted((name, status.st_ino, status.st_size, status.st_mtime_ns) for name, status in files.items()))
