"""What the files of a folder say together."""

import json
from pathlib import Path

import pytest

from gpu_worker.errors import LoadFault
from gpu_worker.model_folder import ModelFolder, read_model_folder


def read(
    folder: Path, model: dict[str, object], tokenizer: dict[str, object], config: dict[str, object]
) -> ModelFolder:
    (folder / "genai_config.json").write_text(json.dumps({"model": model}))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return read_model_folder(folder)


VOCABULARY = {"!": 0, "a": 1, "b": 2}
TOKENIZER: dict[str, object] = {
    "model": {"vocab": VOCABULARY},
    "decoder": {"type": "ByteLevel"},
    "added_tokens": [
        {"id": 3, "content": "<|end|>", "special": True},
        {"id": 4, "content": "<think>", "special": True},
        {"id": 5, "content": "<pad>", "special": False},
    ],
}


def test_token_zero_is_text_though_a_config_calls_it_padding_and_bos(tmp_path: Path) -> None:
    found = read(tmp_path, {"eos_token_id": 3, "pad_token_id": 0, "bos_token_id": 0}, TOKENIZER, {})
    assert found.vocabulary is not None
    assert [found.vocabulary.piece(token_id) for token_id in range(6)] == [b"!", b"a", b"b", b"", b"<think>", b"<pad>"]


def test_padding_that_is_an_added_token_is_silent(tmp_path: Path) -> None:
    found = read(tmp_path, {"eos_token_id": 3, "pad_token_id": 5}, TOKENIZER, {})
    assert found.shown == {3: "", 4: "<think>", 5: ""}


def test_without_end_tokens_the_tokenizers_one_is_used(tmp_path: Path) -> None:
    assert read(tmp_path, {}, TOKENIZER, {"eos_token": "<|end|>"}).eos_ids == {3}


def test_a_folder_that_names_no_end_token_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadFault, match="end-of-sequence"):
        read(tmp_path, {}, TOKENIZER, {})


def test_bos_is_the_tokenizers_then_the_configs_unless_there_is_none(tmp_path: Path) -> None:
    assert read(tmp_path, {"eos_token_id": 3, "bos_token_id": 1}, TOKENIZER, {"bos_token": "b"}).bos_id == 2
    assert read(tmp_path, {"eos_token_id": 3, "bos_token_id": 1}, TOKENIZER, {}).bos_id == 1
    assert read(tmp_path, {"eos_token_id": 3, "bos_token_id": 1}, TOKENIZER, {"bos_token": None}).bos_id is None


def test_a_tokenizer_of_an_unknown_kind_leaves_decoding_to_the_engine(tmp_path: Path) -> None:
    found = read(tmp_path, {"eos_token_id": 3}, TOKENIZER | {"decoder": {"type": "WordPiece"}}, {})
    assert found.vocabulary is None
    assert found.shown[4] == "<think>"


def test_a_folder_with_another_kind_of_tokenizer_file_leaves_decoding_to_the_engine(tmp_path: Path) -> None:
    (tmp_path / "genai_config.json").write_text(json.dumps({"model": {"eos_token_id": 3}}))
    (tmp_path / "tokenizer.model").write_bytes(b"x")
    found = read_model_folder(tmp_path)
    assert (found.vocabulary, found.shown, found.bos_id) == (None, {3: ""}, None)


@pytest.mark.parametrize("model", [{}, {"vocab": {}}, {"vocab": []}, {"vocab": None}, None])
def test_a_tokenizer_without_tokens_is_refused(tmp_path: Path, model: object) -> None:
    with pytest.raises(LoadFault, match=r"model\.vocab"):
        read(tmp_path, {"eos_token_id": 3}, TOKENIZER | {"model": model}, {})
