"""Facts of the tokenizer's files: added tokens, and whether a prompt begins with BOS."""

import json
from pathlib import Path

import pytest

from gpu_worker.errors import LoadFault
from gpu_worker.tokenizer_files import AddedToken, TokenizerFacts, read_tokenizer_facts

BOS_TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
}
PLAIN_TEMPLATE = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}]}


def read(folder: Path, config: object = None, **tokenizer: object) -> TokenizerFacts:
    added = [
        {"id": 1, "content": "<s>", "special": True},
        {"id": 2, "content": "</s>", "special": True},
        {"id": 0, "content": "<tool>", "special": False},
    ]
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": added, **tokenizer}))

    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))

    return read_tokenizer_facts(folder)


def test_added_tokens_are_read_with_their_kind(tmp_path: Path) -> None:
    assert read(tmp_path).added_tokens == (
        AddedToken(1, "<s>", True),
        AddedToken(2, "</s>", True),
        AddedToken(0, "<tool>", False),
    )


def test_entries_that_are_no_tokens_are_passed_over(tmp_path: Path) -> None:
    entries = [None, 7, {}, {"id": "1", "content": "a"}, {"id": -1, "content": "a"}, {"id": 3, "content": ""}]
    assert read(tmp_path, added_tokens=[*entries, {"id": 4, "content": "x"}]).added_tokens == (
        AddedToken(4, "x", False),
    )
    assert read(tmp_path, added_tokens="none").added_tokens == ()


@pytest.mark.parametrize("spelling", ["<s>", {"content": "<s>", "lstrip": False}])
def test_bos_is_named_by_its_text_or_by_an_object(tmp_path: Path, spelling: object) -> None:
    found = read(tmp_path, {"bos_token": spelling, "eos_token": "</s>"})
    assert (found.bos_id, found.eos_id, found.names_no_bos) == (1, 2, False)


def test_a_token_of_the_models_own_vocabulary_has_an_id_too(tmp_path: Path) -> None:
    assert read(tmp_path, {"eos_token": "!"}, model={"vocab": {"!": 0}}).eos_id == 0


def test_a_bos_of_null_says_that_there_is_none(tmp_path: Path) -> None:
    found = read(tmp_path, {"bos_token": None})
    assert (found.bos_id, found.names_no_bos) == (None, True)


@pytest.mark.parametrize(
    ("config", "post_processor", "expected"),
    [
        ({"bos_token": "<s>", "add_bos_token": True}, None, True),
        ({"bos_token": "<s>", "add_bos_token": False}, BOS_TEMPLATE, False),
        ({"bos_token": "<s>"}, BOS_TEMPLATE, True),
        ({"bos_token": "<s>"}, {"type": "Sequence", "processors": [{"type": "ByteLevel"}, BOS_TEMPLATE]}, True),
        ({"bos_token": "<s>"}, {"type": "ByteLevel"}, False),
        ({"bos_token": "<s>"}, PLAIN_TEMPLATE, False),
        ({"bos_token": "<s>"}, {"type": "TemplateProcessing", "single": []}, False),
        ({"bos_token": None}, BOS_TEMPLATE, False),
        ({"bos_token": "<s>"}, None, False),
    ],
)
def test_a_prompt_begins_with_bos_when_the_files_say_so(
    tmp_path: Path, config: object, post_processor: object, expected: bool
) -> None:
    assert read(tmp_path, config, post_processor=post_processor).wants_bos is expected


def test_a_folder_without_these_files_has_no_facts(tmp_path: Path) -> None:
    found = read_tokenizer_facts(tmp_path)
    assert (found.tokenizer, found.added_tokens, found.wants_bos) == (None, (), False)


def test_a_tokenizer_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{")

    with pytest.raises(LoadFault, match=r"tokenizer\.json"):
        read_tokenizer_facts(tmp_path)
