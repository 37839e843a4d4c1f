import json
from pathlib import Path

import pytest

from prism.export.layout import Precision
from prism.export.tiny_model import write_tiny_model
from tests.export.engine_helpers import Engine


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("precision", list(Precision))
def test_the_same_seed_gives_the_same_files_and_another_seed_others(tmp_path: Path, precision: Precision) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_tiny_model(tmp_path / name, seed=seed, precision=precision)

    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert files(tmp_path / "a")["model.onnx.data"] != files(tmp_path / "c")["model.onnx.data"]


def test_the_folder_stays_under_three_megabytes(tmp_path: Path) -> None:
    write_tiny_model(tmp_path)

    assert sum(len(content) for content in files(tmp_path).values()) < 3_000_000


def test_context_length_and_template_are_what_was_asked_for(tmp_path: Path) -> None:
    write_tiny_model(tmp_path, context_length=96, chat_template="{{ messages }}")

    config = json.loads((tmp_path / "genai_config.json").read_text())
    assert config["model"]["context_length"] == 96
    assert config["search"]["max_length"] == 96
    assert (tmp_path / "chat_template.jinja").read_text() == "{{ messages }}"


def test_a_model_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    write_tiny_model(tmp_path)
    before = files(tmp_path)

    with pytest.raises(FileExistsError):
        write_tiny_model(tmp_path, seed=5)

    assert files(tmp_path) == before


@pytest.mark.engine
@pytest.mark.parametrize("precision", list(Precision))
def test_it_generates_more_than_one_repeated_token(tmp_path: Path, precision: Precision) -> None:
    write_tiny_model(tmp_path, precision=precision)
    engine = Engine(tmp_path)

    answer = engine.answer_ids(engine.encode("<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"), most=40)

    assert len(set(answer)) > 10


@pytest.mark.engine
def test_thinking_and_tool_tokens_are_one_id_each_and_decode_to_their_text(tmp_path: Path) -> None:
    write_tiny_model(tmp_path)
    engine = Engine(tmp_path)
    text = "<think>a</think><tool_call>b</tool_call>"

    ids = engine.encode(text)

    assert len(ids) == 6
    assert engine.decode(ids) == text
