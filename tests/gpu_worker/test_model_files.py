"""Facts of genai_config.json, and clear words for a folder that is no model."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_worker.errors import LoadFault
from gpu_worker.model_files import read_model_config
from ipc.messages import LoadFailCode

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a model folder whose `model` and `search` sections hold what is given."""

    def write_folder(model: object = None, search: object = None, **files: str) -> Path:
        section = {"eos_token_id": 2, "decoder": {"filename": "model.onnx"}}
        section |= model if isinstance(model, dict) else {}
        (tmp_path / "genai_config.json").write_text(json.dumps({"model": section, "search": search or {}}))
        (tmp_path / "tokenizer.json").write_text("{}")
        (tmp_path / "model.onnx").write_bytes(b"graph")
        return tmp_path

    return write_folder


def refusal(folder: Path) -> str:
    with pytest.raises(LoadFault) as caught:
        read_model_config(folder)

    assert caught.value.code is LoadFailCode.BAD_MODEL
    return str(caught.value)


def test_the_facts_are_read(write: Write) -> None:
    found = read_model_config(
        write({"context_length": 512, "vocab_size": 270, "bos_token_id": 1, "pad_token_id": 0}, {"top_k": 50})
    )
    assert (found.context_length, found.vocabulary_size, found.top_k) == (512, 270, 50)
    assert (found.eos_ids, found.bos_id, found.pad_id) == (frozenset({2}), 1, 0)


@pytest.mark.parametrize(
    ("value", "expected"), [(2, {2}), ([2, 3], {2, 3}), (0, {0}), ([], set()), (None, set()), (-1, set())]
)
def test_end_tokens_are_one_or_many(write: Write, value: object, expected: set[int]) -> None:
    assert read_model_config(write({"eos_token_id": value})).eos_ids == expected


@pytest.mark.parametrize("value", ["2", 2.5, True, [2, "3"], {"id": 2}])
def test_end_tokens_of_another_kind_are_refused_by_name(write: Write, value: object) -> None:
    assert "eos_token_id" in refusal(write({"eos_token_id": value}))


def test_the_window_is_the_context_length_and_not_the_default_length_of_a_search(write: Write) -> None:
    assert read_model_config(write({"context_length": 4_096}, {"max_length": 128})).context_length == 4_096


def test_a_window_that_is_not_told_is_unknown(write: Write) -> None:
    assert read_model_config(write({}, {"max_length": 128})).context_length is None
    assert read_model_config(write({"context_length": 0})).context_length is None


@pytest.mark.parametrize("value", ["4096", -1, 1.5, True, []])
def test_a_window_that_is_no_number_is_refused_by_name(write: Write, value: object) -> None:
    assert "context_length" in refusal(write({"context_length": value}))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "gone is no folder" in refusal(tmp_path / "gone")


def test_a_folder_without_a_config_is_told_so(tmp_path: Path) -> None:
    assert "genai_config.json is missing" in refusal(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b"version https://git-lfs.github.com/spec/v1"]
)
def test_a_config_that_is_no_json_object_is_named(write: Write, content: bytes) -> None:
    folder = write()
    (folder / "genai_config.json").write_bytes(content)
    assert "genai_config.json" in refusal(folder)


@pytest.mark.parametrize("model", ["null", "[]", '"x"'])
def test_a_config_without_a_model_is_told_so(write: Write, model: str) -> None:
    folder = write()
    (folder / "genai_config.json").write_text(f'{{"model": {model}}}')
    assert "`model`" in refusal(folder)


def test_a_missing_tokenizer_is_found_before_anything_is_loaded(write: Write) -> None:
    folder = write()
    (folder / "tokenizer.json").unlink()
    assert "tokenizer.json" in refusal(folder)


def test_a_missing_or_empty_graph_is_named(write: Write) -> None:
    folder = write()
    (folder / "model.onnx").write_bytes(b"")
    assert "model.onnx is empty" in refusal(folder)
    (folder / "model.onnx").unlink()
    assert "'model.onnx' is missing" in refusal(folder)


def test_a_graph_that_is_a_link_to_another_place_is_found(write: Write, tmp_path: Path) -> None:
    folder = write()
    blob = tmp_path / "blobs"
    blob.mkdir()
    (folder / "model.onnx").rename(blob / "sha256")
    (folder / "model.onnx").symlink_to(blob / "sha256")
    assert read_model_config(folder).eos_ids == {2}


def test_a_graph_of_several_files_is_left_to_the_engine(write: Write) -> None:
    assert read_model_config(write({"decoder": {"pipeline": []}})).eos_ids == {2}
