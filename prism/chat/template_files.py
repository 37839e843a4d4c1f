"""Reads what a model folder says about its prompts: the chat templates and the special tokens of its tokenizer.

Called by `prompt.py` when a folder is first used and after its files changed. Blocks for some small reads. A file that is missing, too
large, unreadable or malformed counts as absent: the folder may come from anywhere, and a model without a template still works.
"""

import json
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from types import MappingProxyType

MAX_FILE_BYTES = 4 << 20
DEFAULT_TEMPLATE = "default"
TOOL_TEMPLATE = "tool_use"

_JINJA_FILE, _TEMPLATE_FILE, _CONFIG_FILE, _TOKENIZER_FILE = (
    "chat_template.jinja",
    "chat_template.json",
    "tokenizer_config.json",
    "tokenizer.json",
)
_SPECIAL_MAP_FILE = "special_tokens_map.json"
_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "cls_token", "sep_token", "mask_token")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TemplateFiles:
    """What was found.

    templates: source by name; `default` is there if any is.
    named_tokens: text by role (`bos_token`, ...); roles that the tokenizer does not have are missing.
    special_tokens: texts that the tokenizer turns into one control token each. special_ids: the ids of those whose id is known.
    adds_bos: the tokenizer puts the BOS token first by itself.
    """

    templates: Mapping[str, str]
    named_tokens: Mapping[str, str]
    special_tokens: frozenset[str]
    adds_bos: bool
    special_ids: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileStamp:
    """What changes when a file does."""

    name: str
    modified_ns: int
    size_bytes: int


def stamps_of(folder: Path) -> tuple[FileStamp, ...]:
    """The state of the files that `read_template_files` reads, to see whether they changed since."""
    stamps: list[FileStamp] = []

    for name in (_JINJA_FILE, _TEMPLATE_FILE, _CONFIG_FILE, _TOKENIZER_FILE, _SPECIAL_MAP_FILE):
        try:
            found = os.stat(folder / name)
        except (OSError, ValueError):
            continue

        # A pipe would be waited for without end, and a device read without end.
        if S_ISREG(found.st_mode):
            stamps.append(FileStamp(name, found.st_mtime_ns, found.st_size))

    return tuple(stamps)


def read_template_files(folder: Path) -> TemplateFiles:
    """Read the folder, or remember what was read while no file has changed."""
    return _read(folder, stamps_of(folder))


@lru_cache(maxsize=32)
def _read(folder: Path, stamps: tuple[FileStamp, ...]) -> TemplateFiles:
    sizes = {stamp.name: stamp.size_bytes for stamp in stamps}
    config = _read_object(folder / _CONFIG_FILE, sizes)
    special_map = _read_object(folder / _SPECIAL_MAP_FILE, sizes)
    named = {
        role: text
        for role in _NAMED_TOKENS
        if (text := _token_text(config.get(role)) or _token_text(special_map.get(role)))
    }

    return TemplateFiles(
        templates=MappingProxyType(_templates(folder, sizes, config)),
        named_tokens=MappingProxyType(named),
        special_tokens=frozenset(_special_tokens(folder, sizes, config, special_map, named)),
        special_ids=MappingProxyType(dict(_special_ids(folder, sizes, config))),
        adds_bos=config.get("add_bos_token") is True,
    )


def _templates(folder: Path, sizes: Mapping[str, int], config: Mapping[str, object]) -> dict[str, str]:
    """The first place that holds any template decides; the named ones of the configuration stay beside a file of its own."""
    in_config = _named_templates(config.get("chat_template"))
    in_json = _named_templates(_read_object(folder / _TEMPLATE_FILE, sizes).get("chat_template"))
    in_jinja = _named_templates(_read_text(folder / _JINJA_FILE, sizes))
    found = in_jinja or in_json or in_config

    if TOOL_TEMPLATE in found or found is in_config:
        return found

    # A folder that keeps its default in a file of its own may still keep the others in the configuration.
    return (
        {**{name: text for name, text in in_config.items() if name != DEFAULT_TEMPLATE}, **found}
        if len(in_config) > 1
        else found
    )


def _named_templates(value: object) -> dict[str, str]:
    if isinstance(value, str):
        return {DEFAULT_TEMPLATE: value} if value.strip() else {}

    if not isinstance(value, list):
        return {}

    named = {
        entry["name"]: entry["template"]
        for entry in value
        if isinstance(entry, dict) and isinstance(entry.get("name"), str) and isinstance(entry.get("template"), str)
    }

    if named and DEFAULT_TEMPLATE not in named:
        named[DEFAULT_TEMPLATE] = next(iter(named.values()))

    return named


def _special_tokens(
    folder: Path,
    sizes: Mapping[str, int],
    config: Mapping[str, object],
    special_map: Mapping[str, object],
    named: Mapping[str, str],
) -> Iterable[str]:
    yield from named.values()

    for source in (config, special_map):
        more = source.get("additional_special_tokens")

        for token in more if isinstance(more, list) else ():
            if text := _token_text(token):
                yield text

    decoder = config.get("added_tokens_decoder")
    added = list(decoder.values()) if isinstance(decoder, dict) else []

    for token in [*added, *_added_tokens(folder / _TOKENIZER_FILE, sizes)]:
        if isinstance(token, dict) and token.get("special") is True and (text := _token_text(token)):
            yield text


def _special_ids(folder: Path, sizes: Mapping[str, int], config: Mapping[str, object]) -> Iterable[tuple[str, int]]:
    decoder = config.get("added_tokens_decoder")
    added = [
        {**token, "id": int(token_id)}
        for token_id, token in (decoder.items() if isinstance(decoder, dict) else ())
        if isinstance(token, dict) and token_id.isdecimal()
    ]

    for token in [*added, *_added_tokens(folder / _TOKENIZER_FILE, sizes)]:
        if not isinstance(token, dict) or token.get("special") is not True:
            continue

        text, token_id = _token_text(token), token.get("id")

        if text and isinstance(token_id, int) and not isinstance(token_id, bool) and token_id >= 0:
            yield text, token_id


def _added_tokens(path: Path, sizes: Mapping[str, int]) -> list[object]:
    """The list `added_tokens` of a tokenizer.json, which stands before the vocabulary; the whole file may have 30 MB."""
    if path.name not in sizes:
        return []

    try:
        with path.open("rb") as file:
            head = file.read(MAX_FILE_BYTES).decode("utf-8", "ignore")

        start = head.index("[", head.index('"added_tokens"'))
        tokens, _ = json.JSONDecoder().raw_decode(head, start)
    except (OSError, ValueError, RecursionError) as error:
        logger.warning("no list of added tokens in %s: %s", path, error)
        return []

    return tokens if isinstance(tokens, list) else []


def _token_text(token: object) -> str | None:
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) and content else None


def _read_object(path: Path, sizes: Mapping[str, int]) -> Mapping[str, object]:
    text = _read_text(path, sizes)

    if text is None:
        return {}

    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        logger.warning("%s is left out: %s", path, error)
        return {}

    return value if isinstance(value, dict) else {}


def _read_text(path: Path, sizes: Mapping[str, int]) -> str | None:
    size = sizes.get(path.name)

    if size is None:
        return None

    if size > MAX_FILE_BYTES:
        logger.warning("%s is left out: %d bytes, more than %d", path, size, MAX_FILE_BYTES)
        return None

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        logger.warning("%s is left out: %s", path, error)
        return None
