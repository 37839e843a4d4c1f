"""What a `genai_config.json` may not ask of the engine, since a model folder comes from strangers. Pure; called by `model_files.py`.

The engine (0.18, tried) opens the library that `custom_ops_library` names, wherever it lies, before it looks whether it is one: that is
code of whoever made the folder. `enable_profiling` and `ep.context_file_path` write to any place. That the weights of a graph lie inside
the folder is seen to by ONNX Runtime itself.
"""

import re
from collections.abc import Iterator

from gpu_worker.json_files import JsonObject, bad_model, is_list, is_object

# By their words, not by their names: options of these kinds come with each version of the engine. An empty name is none, but for a profile,
# which then lies in the current folder.
_OPENS_OR_WRITES = frozenset({"library", "lib", "path", "filepath", "folder", "profiling"})
_NAMES_A_FILE = frozenset({"filename", "file", "dir"})
_WORD_BREAK = re.compile(r"[._]")
# `engine.py` takes the providers of the file away: where a model runs is the operator's word.
_NOT_USED = ("model", "decoder", "session_options", "provider_options")

_Place = tuple[str, ...]


def check_bounds(config: JsonObject, config_name: str) -> None:
    """Raise LoadFault(BAD_MODEL) for an option that opens a library or writes a file, and for a file outside of the model's folder."""
    for place, value in _options(config):
        words = _WORD_BREAK.split(place[-1].lower())

        if (
            _OPENS_OR_WRITES.intersection(words)
            and value not in (None, False)
            and (value != "" or "profiling" in words)
        ):
            raise bad_model(f"{config_name} sets {'.'.join(place)}, which a model may not: it opens or writes a file")

        if words[-1] in _NAMES_A_FILE and isinstance(value, str) and not is_inside(value):
            raise bad_model(f"{value!r} ({'.'.join(place)} in {config_name}) lies outside of the model's folder")


def is_inside(name: str) -> bool:
    """Say whether a name leads from a folder into itself. Links are not looked at: a cache of downloads is made of them."""
    return not name.startswith("/") and ".." not in re.split(r"[/\\]", name)


def _options(config: JsonObject) -> Iterator[tuple[_Place, object]]:
    """Yield every value that is no object and no list, and where it stands. Without recursion: the file may be nested deeply."""
    waiting: list[tuple[_Place, object]] = [((), config)]

    while waiting:
        place, value = waiting.pop()

        if is_object(value):
            waiting += [((*place, key), inner) for key, inner in value.items() if (*place, key) != _NOT_USED]
        elif is_list(value):
            waiting += [(place, inner) for inner in value]
        elif place:
            yield place, value
