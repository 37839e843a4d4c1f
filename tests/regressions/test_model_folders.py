"""Folders as people have them: links into a download cache, and tokenizers of other kinds."""

import json
import shutil
from pathlib import Path

import pytest

from gpu_worker.engine import import_library, load_engine
from gpu_worker.errors import LoadFault
from gpu_worker.load_options import LoadOptions
from gpu_worker.model_files import read_model_config
from gpu_worker.model_folder import read_model_folder
from ipc.messages import Device, DeviceChoice, LoadFailCode
from prism.catalog import Catalog
from prism.export.tiny_model import write_tiny_model
from tests.prism.model_folders import make_model_folder


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "tiny"
    write_tiny_model(folder)
    return folder


def device_of(folder: Path) -> Device:
    return load_engine(
        import_library(), read_model_folder(folder), DeviceChoice.CPU, None, LoadOptions(threads=1)
    ).facts.device


@pytest.mark.engine
def test_a_snapshot_in_a_download_cache_is_found_and_loads(tiny_model: Path, tmp_path: Path) -> None:
    """Case 117: every file is a link into the folder of blobs."""
    repository = tmp_path / "models--acme--Tiny-ONNX"
    blobs, snapshot = repository / "blobs", repository / "snapshots" / "0a1b2c"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)

    for number, file in enumerate(tiny_model.iterdir()):
        shutil.copy(file, blobs / str(number))
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")

    (model,) = Catalog([tmp_path]).models()
    assert model.id == "Tiny-ONNX"
    assert device_of(model.path) is Device.CPU


@pytest.mark.engine
def test_weights_that_are_a_link_to_elsewhere_are_told_by_name(tiny_model: Path, tmp_path: Path) -> None:
    """Case 117: the engine opens no weights outside the folder of the graph, and says which file that is."""
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    far = tmp_path / "far"
    far.mkdir()
    (folder / "model.onnx.data").rename(far / "model.onnx.data")
    (folder / "model.onnx.data").symlink_to(far / "model.onnx.data")

    with pytest.raises(LoadFault, match=r"model\.onnx\.data") as caught:
        device_of(folder)

    assert caught.value.code is LoadFailCode.BAD_MODEL
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["tokenizer.model", "tokenizer_module.json", "vocab.json", "vocab.txt", "a.tiktoken"])
def test_what_is_listed_is_not_refused_for_its_tokenizer(tmp_path: Path, name: str) -> None:
    """Case 119: a folder without a tokenizer is no model, and one with any that the engine knows is, for all of us."""
    folder = make_model_folder(tmp_path / "model")
    (folder / "tokenizer.json").rename(folder / name)
    assert [model.id for model in Catalog([tmp_path]).models()] == ["model"]
    assert read_model_config(folder).context_length == 2048
    (folder / name).unlink()
    assert Catalog([tmp_path]).models() == ()

    with pytest.raises(LoadFault, match="tokenizer"):
        read_model_config(folder)


@pytest.mark.engine
def test_a_model_without_a_window_is_refused_in_the_engines_words(tiny_model: Path, tmp_path: Path) -> None:
    """D-22: without `context_length` nobody knows where a prompt is too long."""
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    config = json.loads((folder / "genai_config.json").read_text())
    del config["model"]["context_length"]
    (folder / "genai_config.json").write_text(json.dumps(config))

    with pytest.raises(LoadFault, match="context_length") as caught:
        device_of(folder)

    assert caught.value.code is LoadFailCode.BAD_MODEL
