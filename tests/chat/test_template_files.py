"""Where a template comes from, and what a model folder tells about its tokens."""

import json
import os
from pathlib import Path

import pytest

from prism.chat.template_files import MAX_FILE_BYTES, read_template_files


def write(folder: Path, name: str, value: object) -> None:
    (folder / name).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def test_empty_folder_has_nothing(tmp_path: Path) -> None:
    files = read_template_files(tmp_path)

    assert (dict(files.templates), dict(files.named_tokens), files.special_tokens) == ({}, {}, frozenset())


def test_missing_folder_has_nothing(tmp_path: Path) -> None:
    assert not read_template_files(tmp_path / "gone").templates


def test_files_are_asked_in_order(tmp_path: Path) -> None:
    write(tmp_path, "tokenizer_config.json", {"chat_template": "third"})
    assert read_template_files(tmp_path).templates["default"] == "third"

    write(tmp_path, "chat_template.json", {"chat_template": "second"})
    assert read_template_files(tmp_path).templates["default"] == "second"

    write(tmp_path, "chat_template.jinja", "first")
    assert read_template_files(tmp_path).templates["default"] == "first"


def test_named_templates(tmp_path: Path) -> None:
    named = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}, {"name": 5}, "x"]
    write(tmp_path, "tokenizer_config.json", {"chat_template": named})

    assert dict(read_template_files(tmp_path).templates) == {"tool_use": "T", "default": "D"}


def test_first_named_template_is_the_default_where_none_is_called_so(tmp_path: Path) -> None:
    write(
        tmp_path,
        "tokenizer_config.json",
        {"chat_template": [{"name": "rag", "template": "R"}, {"name": "tool_use", "template": "T"}]},
    )

    assert read_template_files(tmp_path).templates["default"] == "R"


def test_named_tool_template_stays_beside_a_file_of_its_own(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "old"}, {"name": "tool_use", "template": "T"}]
    write(tmp_path, "tokenizer_config.json", {"chat_template": named})
    write(tmp_path, "chat_template.jinja", "new")

    assert dict(read_template_files(tmp_path).templates) == {"default": "new", "tool_use": "T"}


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '"text"', '{"chat_template": 7}', '{"chat_template": null}', "[" * 100_000]
)
def test_malformed_configuration_counts_as_absent(tmp_path: Path, content: str) -> None:
    write(tmp_path, "tokenizer_config.json", content)

    assert not read_template_files(tmp_path).templates


def test_unreadable_text_counts_as_absent(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff\xfe\x00")
    write(tmp_path, "tokenizer_config.json", {"chat_template": "good"})

    assert read_template_files(tmp_path).templates["default"] == "good"


def test_folder_in_place_of_a_file_counts_as_absent(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").mkdir()

    assert not read_template_files(tmp_path).templates


def test_large_files_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, "chat_template.jinja", "x" * (MAX_FILE_BYTES + 1))
    write(tmp_path, "tokenizer_config.json", {"chat_template": "good"})

    assert read_template_files(tmp_path).templates["default"] == "good"


def test_tokens_are_texts_or_objects(tmp_path: Path) -> None:
    config = {
        "bos_token": "<s>",
        "eos_token": {"content": "</s>"},
        "unk_token": None,
        "pad_token": 3,
        "add_bos_token": True,
    }
    write(tmp_path, "tokenizer_config.json", config)
    write(tmp_path, "special_tokens_map.json", {"unk_token": "<unk>"})
    files = read_template_files(tmp_path)

    assert dict(files.named_tokens) == {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    assert files.adds_bos


def test_special_tokens_come_from_every_file_and_plain_added_ones_do_not_count(tmp_path: Path) -> None:
    write(
        tmp_path,
        "tokenizer.json",
        {"added_tokens": [{"content": "<a>", "special": True}, {"content": "<b>", "special": False}, 3]},
    )
    decoder = {"7": {"content": "<c>", "special": True}}
    write(
        tmp_path,
        "tokenizer_config.json",
        {"added_tokens_decoder": decoder, "additional_special_tokens": ["<d>", {"content": "<e>"}]},
    )
    write(tmp_path, "special_tokens_map.json", {"eos_token": "<f>"})

    assert read_template_files(tmp_path).special_tokens == {"<a>", "<c>", "<d>", "<e>", "<f>"}


def test_tokens_are_found_before_a_vocabulary_of_any_size(tmp_path: Path) -> None:
    head = json.dumps({"version": "1.0", "added_tokens": [{"content": "<a>", "special": True}]})[:-1]
    write(tmp_path, "tokenizer.json", head + ', "model": {"vocab": "' + "é" * MAX_FILE_BYTES + '"}}')

    assert read_template_files(tmp_path).special_tokens == {"<a>"}


@pytest.mark.parametrize(
    "content", ['{"added_tokens"', '{"added_tokens": [', '{"added_tokens": {"a": 1}}', "not json", ""]
)
def test_malformed_tokenizer_has_no_special_tokens(tmp_path: Path, content: str) -> None:
    write(tmp_path, "tokenizer.json", content)

    assert read_template_files(tmp_path).special_tokens == frozenset()


def test_change_of_time_or_size_is_seen(tmp_path: Path) -> None:
    write(tmp_path, "chat_template.jinja", "one")
    assert read_template_files(tmp_path).templates["default"] == "one"

    write(tmp_path, "chat_template.jinja", "two")
    os.utime(tmp_path / "chat_template.jinja", ns=(1, 1))
    assert read_template_files(tmp_path).templates["default"] == "two"
