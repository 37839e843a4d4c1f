"""Reads the JSON files of a model folder. Called while loading.

A model folder is foreign: every fault becomes a LoadFault that names the file.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeGuard

from gpu_worker.errors import LoadFault
from gpu_worker.fault_text import cause_of, one_line
from ipc.messages import LoadFailCode

# The largest tokenizer.json in use is about 35 MB; a file far past it is not one.
MAX_JSON_BYTES = 256 * 1024 * 1024

JsonObject = Mapping[str, object]


def bad_model(message: str) -> LoadFault:
    return LoadFault(LoadFailCode.BAD_MODEL, one_line(message))


def read_json_object(path: Path, *, refuses_doubles: bool = False) -> JsonObject:
    """Return the object in the file. Raises LoadFault(BAD_MODEL) when there is no file, no JSON, or no object.

    refuses_doubles: a name that stands twice in an object is a fault. For a file that others read after us: we would see the last of the
    two values, and the engine acts upon each.
    """
    try:
        if not path.is_file():
            raise bad_model(f"{path.name} is missing in {path.parent}")

        if path.stat().st_size > MAX_JSON_BYTES:
            raise bad_model(f"{path} is larger than {MAX_JSON_BYTES >> 20} MiB, which no such file is")

        content: object = json.loads(path.read_bytes(), object_pairs_hook=_single if refuses_doubles else None)
    except (OSError, ValueError, RecursionError) as error:
        raise bad_model(f"{path} cannot be read: {cause_of(error)}") from error

    if not is_object(content):
        raise bad_model(f"{path} must hold a JSON object, not {type(content).__name__}")

    return content


def _single(pairs: list[tuple[str, object]]) -> JsonObject:
    content: dict[str, object] = {}

    for name, value in pairs:
        if name in content:
            raise ValueError(f"it holds {name!r} twice in one object")

        content[name] = value

    return content


def is_object(value: object) -> TypeGuard[JsonObject]:
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def is_integer(value: object) -> TypeGuard[int]:
    """JSON's true is no number, though Python's True is one."""
    return isinstance(value, int) and not isinstance(value, bool)


def section(parent: JsonObject, key: str) -> JsonObject:
    """Return the object under key, or an empty one when there is none."""
    value = parent.get(key)
    return value if is_object(value) else {}
