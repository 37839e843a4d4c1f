"""Reads one folder and says whether it is a whole ONNX GenAI model. Called by `prism.catalog` while it walks.

A folder counts when it has a readable `genai_config.json`, every ONNX file that the config names together with the
data files that those refer to, and a tokenizer. Downloads that are under way, or were made without Git LFS, lack one
of these and are told apart by name of the missing thing. A folder comes from strangers: what it names outside of itself
is not looked at, and it can make the look at it take some tenths of a second, no more. Blocks for some `stat` calls
and, the first time, for reading the ONNX graphs up to `_MAX_GRAPH_BYTES`.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from stat import S_ISREG

from prism.image_families import ImageFamily, image_family
from prism.model_entry import EXPORTED_FOR_CPU, EXPORTED_FOR_CUDA, ModelEntry
from prism.onnx_references import MAX_REFERENCES, external_data_files

CONFIG_NAME = "genai_config.json"
# What onnxruntime-genai's tokenizers can start from. Which of them a model type needs is the engine's knowledge, not
# ours.
_TOKENIZER_NAMES = ("tokenizer.json", "tokenizer.model", "tokenizer_module.json", "vocab.json", "vocab.txt")
_TOKENIZER_SUFFIX = ".tiktoken"
_LFS_MARK = b"version https://git-lfs"
_MAX_POINTER_BYTES = 1024
_MAX_CONFIG_BYTES = 1 << 20
# Of all graphs of a folder. A larger file holds the weights themselves; a graph whose weights lie beside it is a few megabytes.
_MAX_GRAPH_BYTES = 64 << 20
_MAX_GRAPHS = 256

FolderFiles = Mapping[str, os.stat_result]


class NotAModel(Exception):
    """The folder has a GenAI config, but cannot be loaded.

    The message says what is missing, without naming the folder.
    """


def regular_files(folder: Path) -> dict[str, os.stat_result]:
    """Return the regular files directly in the folder, links followed; broken links are left out."""
    found: dict[str, os.stat_result] = {}

    with os.scandir(folder) as items:
        for item in items:
            try:
                status = item.stat()
            except OSError:
                continue

            if S_ISREG(status.st_mode):
                found[item.name] = status

    return found


def read_model_folder(folder: Path, model_id: str, files: FolderFiles) -> ModelEntry:
    """Return the entry of a whole model folder.

    `files` is what `regular_files` said about it. Raises NotAModel otherwise.
    """
    config = _read_config(folder, files)
    model = _mapping(config.get("model"))
    _check_weights(folder, model, files)
    _check_tokenizer(folder, files)
    model_type = model.get("type")

    return ModelEntry(
        id=model_id,
        path=folder,
        size_mb=round(sum(status.st_size for status in files.values()) / (1 << 20), 1),
        exported_for=_exported_for(model_id, model),
        model_type=model_type if isinstance(model_type, str) and model_type else None,
        context_length=_positive_int(model.get("context_length")),
        created=int(files[CONFIG_NAME].st_mtime),
        images=_images(model),
    )


def _images(model: Mapping[str, object]) -> ImageFamily | None:
    """A type may exist with and without eyes, so its graph must be there as well."""
    model_type = model.get("type")
    sees = any(_filename_of(_mapping(model.get("vision"))))
    return image_family(model_type) if sees and isinstance(model_type, str) else None


def _read_config(folder: Path, files: FolderFiles) -> Mapping[str, object]:
    _check_whole(folder, CONFIG_NAME, files)

    if files[CONFIG_NAME].st_size > _MAX_CONFIG_BYTES:
        raise NotAModel(f"{CONFIG_NAME} is larger than any config should be")

    try:
        config = json.loads((folder / CONFIG_NAME).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise NotAModel(f"{CONFIG_NAME} cannot be read: {error}") from error

    if not isinstance(config, dict) or not isinstance(config.get("model"), dict):
        raise NotAModel(f"{CONFIG_NAME} has no `model` object")

    return config


def _check_weights(folder: Path, model: Mapping[str, object], files: FolderFiles) -> None:
    # Each once, however often and in however many spellings it is named.
    graphs = {os.path.normpath(_inside(name)) for name in _named_graphs(model)}

    if not graphs:
        graphs = set(sorted(name for name in files if name.endswith(".onnx"))[:1])

    if not graphs:
        raise NotAModel("there is no .onnx file")

    if len(graphs) > _MAX_GRAPHS:
        raise NotAModel(f"{CONFIG_NAME} names more than {_MAX_GRAPHS} graphs")

    weights: set[str] = set()
    bytes_left = _MAX_GRAPH_BYTES

    for graph in sorted(graphs):
        size = _check_whole(folder, graph, files)

        if size <= bytes_left:
            bytes_left -= size
            weights |= _external_data_of(folder / graph)

    for name in weights:
        _check_whole(folder, _inside(name), files)


def _inside(name: str) -> str:
    """Return the name of a file if it leads nowhere but into the folder. Links are followed: a cache of downloads is made of them."""
    if name.startswith("/") or ".." in re.split(r"[/\\]", name):
        raise NotAModel(f"{name!r} lies outside of the folder")

    return name


def _external_data_of(graph: Path) -> frozenset[str]:
    try:
        found = external_data_files(graph.read_bytes())
    except OSError as error:
        raise NotAModel(f"{graph.name} cannot be read: {error.strerror}") from error

    if len(found) > MAX_REFERENCES:
        raise NotAModel(f"{graph.name} refers to more than {MAX_REFERENCES} files")

    return found


def _named_graphs(model: Mapping[str, object]) -> Iterator[str]:
    """Yield the ONNX files that the config names: the decoder's, other parts' (vision, embedding), pipeline stages'."""
    for part in model.values():
        section = _mapping(part)
        yield from _filename_of(section)
        stages = section.get("pipeline")

        for stage in stages if isinstance(stages, list) else []:
            for step in _mapping(stage).values():
                yield from _filename_of(_mapping(step))


def _filename_of(section: Mapping[str, object]) -> Iterator[str]:
    filename = section.get("filename")

    if isinstance(filename, str) and filename:
        yield filename


def _check_tokenizer(folder: Path, files: FolderFiles) -> None:
    present = [name for name in files if name in _TOKENIZER_NAMES or name.endswith(_TOKENIZER_SUFFIX)]

    if not present:
        raise NotAModel(f"there is no tokenizer ({_TOKENIZER_NAMES[0]} or {_TOKENIZER_NAMES[1]})")

    for name in present:
        _check_whole(folder, name, files)


def _check_whole(folder: Path, name: str, files: FolderFiles) -> int:
    """Return the file's size. Raises NotAModel unless it is there, has content, and is not what Git leaves in place of a large file."""
    try:
        status = files[name] if name in files else (folder / name).stat()
    except (OSError, ValueError) as error:
        raise NotAModel(f"{name} is missing") from error

    if not S_ISREG(status.st_mode):
        raise NotAModel(f"{name} is not a file")

    if status.st_size == 0:
        raise NotAModel(f"{name} is empty")

    if status.st_size <= _MAX_POINTER_BYTES and _begins_with_lfs_mark(folder / name):
        raise NotAModel(f"{name} is a Git LFS pointer, not the file itself (run `git lfs pull` there)")

    return status.st_size


def _begins_with_lfs_mark(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_LFS_MARK)) == _LFS_MARK
    except OSError as error:
        raise NotAModel(f"{path.name} cannot be read: {error.strerror}") from error


def _exported_for(model_id: str, model: Mapping[str, object]) -> str:
    """Tell by the name's words or the decoder's provider options (they lie under `model.decoder.session_options`)."""
    words = re.split(r"[^a-z0-9]+", model_id.lower())

    if any(word in ("gpu", "cuda") for word in words) or "cuda" in _provider_names(model):
        return EXPORTED_FOR_CUDA

    return EXPORTED_FOR_CPU


def _provider_names(model: Mapping[str, object]) -> set[str]:
    session_options = _mapping(_mapping(model.get("decoder")).get("session_options"))
    options = session_options.get("provider_options")

    return {name.lower() for option in (options if isinstance(options, list) else []) for name in _mapping(option)}


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _positive_int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
