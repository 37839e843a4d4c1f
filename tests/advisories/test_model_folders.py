"""A model folder comes from strangers: what it may make the front and a worker do."""

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_worker.engine import import_library, load_engine
from gpu_worker.errors import LoadFault
from gpu_worker.load_options import LoadOptions
from gpu_worker.model_folder import read_model_folder
from ipc.messages import DeviceChoice, LoadFailCode
from prism.catalog import Catalog, ModelNotFound
from prism.chat.template_files import read_template_files
from prism.export.tiny_model import write_tiny_model
from prism.onnx_references import MAX_REFERENCES
from supervisor.model_figures import read_figures
from tests.prism.model_folders import external_data_entry, make_model_folder

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def sound_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound") / "tiny"
    write_tiny_model(folder)
    return folder


@pytest.fixture
def copy(sound_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound_model, tmp_path / "tiny"))


def change_config(folder: Path, change: Change) -> None:
    path = folder / "genai_config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def options_of(config: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = config["model"]["decoder"].setdefault("session_options", {})
    return options


def refusal(folder: Path) -> str:
    with pytest.raises(LoadFault) as caught:
        load_engine(import_library(), read_model_folder(folder), DeviceChoice.CPU, None, LoadOptions(threads=1))

    assert caught.value.code is LoadFailCode.BAD_MODEL
    return str(caught.value)


@pytest.mark.engine
@pytest.mark.parametrize(
    "change",
    [
        lambda config: options_of(config).update(custom_ops_library="code.so"),
        lambda config: options_of(config).update(custom_ops_library="/tmp/code.so"),
        lambda config: options_of(config).update(enable_profiling="/tmp/made-by-a-model"),
        lambda config: options_of(config).update(enable_profiling=""),
        lambda config: options_of(config).update({"ep.context_enable": "1", "ep.context_file_path": "/tmp/x"}),
        lambda config: options_of(config).update({"session.model_external_initializers_file_folder_path": "/etc"}),
        lambda config: config["model"].update(vision={"session_options": {"custom_ops_library": "code.so"}}),
        lambda config: config["model"].update(vision={"x": [{"provider_options": [{"y": {"library_path": "z"}}]}]}),
    ],
)
def test_no_model_brings_code_or_writes_a_file(copy: Path, change: Change) -> None:
    change_config(copy, change)
    assert "a model may not" in refusal(copy)


@pytest.mark.engine
def test_an_option_that_the_engine_would_see_and_we_would_not_is_found(copy: Path) -> None:
    """The engine takes each of two values of one name, a parser of Python's the last."""
    path = copy / "genai_config.json"
    hidden = '"session_options": {"custom_ops_library": "code.so"}, "session_options": {'
    path.write_text(path.read_text().replace('"session_options": {', hidden))
    assert "twice" in refusal(copy)


@pytest.mark.engine
def test_options_that_do_no_harm_are_left_alone(copy: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        options_of(config).update({"ep.context_file_path": "", "log_severity_level": 3, "intra_op_num_threads": 1})
        # Taken away before the engine sees them.
        options_of(config)["provider_options"] = [{"OpenVINO": {"cache_dir": "/x", "library_path": "/y"}}]

    change_config(copy, change)
    load_engine(import_library(), read_model_folder(copy), DeviceChoice.CPU, None, LoadOptions(threads=1))


@pytest.mark.engine
@pytest.mark.parametrize("filename", ["../model.onnx", "/etc/hostname", "x/../../model.onnx", "..\\model.onnx"])
def test_a_graph_outside_of_the_folder_is_refused_by_worker_and_catalog(copy: Path, filename: str) -> None:
    shutil.copy(copy / "model.onnx", copy.parent / "model.onnx")
    change_config(copy, lambda config: config["model"]["decoder"].update(filename=filename))
    assert "outside of the model's folder" in refusal(copy)
    assert [folder.reason for folder in Catalog([copy.parent]).scan().skipped] == [
        f"{filename!r} lies outside of the folder"
    ]


@pytest.mark.engine
@pytest.mark.parametrize("kind", ["parent", "absolute", "link", "linked folder"])
def test_weights_outside_of_the_folder_are_refused(copy: Path, kind: str) -> None:
    """Seen to by ONNX Runtime, whose version this holds to it; names that lead out are not even listed."""
    onnx = pytest.importorskip("onnx")
    outside = copy.parent / "outside.data"
    (copy / "model.onnx.data").rename(outside)
    location = {"parent": "../outside.data", "absolute": str(outside), "linked folder": "sub/outside.data"}.get(
        kind, "model.onnx.data"
    )

    if kind == "link":
        (copy / "model.onnx.data").symlink_to(outside)

    (copy / "sub").symlink_to(copy.parent)
    model = onnx.load(copy / "model.onnx", load_external_data=False)

    for entry in (entry for tensor in model.graph.initializer for entry in tensor.external_data):
        entry.value = location if entry.key == "location" else entry.value

    onnx.save(model, copy / "model.onnx")
    assert "xternal" in refusal(copy)

    if kind in ("parent", "absolute"):
        assert "lies outside of the folder" in Catalog([copy.parent]).scan().skipped[0].reason


@pytest.mark.parametrize(
    "file", ["chat_template.jinja", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"]
)
@pytest.mark.parametrize("kind", ["pipe", "endless device"])
def test_a_file_that_never_ends_stops_nobody(tmp_path: Path, file: str, kind: str) -> None:
    folder = make_model_folder(tmp_path / "tiny", weights={"tokenizer.model": b"x"})
    (folder / file).unlink(missing_ok=True)
    os.mkfifo(folder / file) if kind == "pipe" else (folder / file).symlink_to("/dev/zero")
    reader = threading.Thread(target=lambda: read_template_files(folder), daemon=True)
    reader.start()
    reader.join(5)
    is_stuck = reader.is_alive()

    if is_stuck and kind == "pipe":
        os.close(os.open(folder / file, os.O_WRONLY))

    assert not is_stuck
    assert read_template_files(folder).templates == {}
    assert [model.id for model in Catalog([tmp_path]).models()] == ["tiny"]


def test_a_folder_that_wants_to_be_read_for_ever_costs_the_catalog_little(tmp_path: Path) -> None:
    graph = bytes(30 << 20)
    spellings = [{"stage": {"filename": f"{'./' * (n % 7)}model.onnx"}} for n in range(15_000)]
    make_model_folder(tmp_path / "repeated", model={"decoder": {"pipeline": spellings}}, graph=graph)
    many = [{"stage": {"filename": f"{n}.onnx"}} for n in range(5_000)]
    make_model_folder(tmp_path / "many", model={"decoder": {"pipeline": many}})
    references = b"".join(external_data_entry(f"{n:x}") for n in range(MAX_REFERENCES * 3))
    make_model_folder(tmp_path / "referring", graph=references)
    begun = time.thread_time()
    scan = Catalog([tmp_path]).scan()

    assert time.thread_time() - begun < 3
    assert {folder.path.name: folder.reason for folder in scan.skipped} == {
        "many": "genai_config.json names more than 256 graphs",
        "referring": f"model.onnx refers to more than {MAX_REFERENCES} files",
    }


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 1_000_000,
        b'{"a":' * 500_000,
        b"[" + b"[]," * 300_000 + b"[]]",
        b'{"model": {"context_length": 1e999}}',
        b"\xff\xfe\0",
    ],
)
def test_a_config_that_is_a_bomb_costs_little(tmp_path: Path, content: bytes) -> None:
    folder = make_model_folder(tmp_path / "bomb")
    (folder / "genai_config.json").write_bytes(content)
    (folder / "tokenizer_config.json").write_bytes(content)
    (folder / "tokenizer.json").write_bytes(b'{"added_tokens": ' + content)
    begun = time.thread_time()
    assert Catalog([tmp_path]).models() == () or content.startswith(b'{"model"')
    read_figures(folder)
    assert read_template_files(folder).templates == {}
    # Most of it is the collector of garbage, which looks through all that a long run of tests has imported.
    assert time.thread_time() - begun < 15


def test_a_path_of_a_client_is_compared_and_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_model_folder(tmp_path / "models" / "tiny")
    (tmp_path / "link").symlink_to(folder)
    catalog = Catalog([tmp_path / "models"])
    asked: list[str] = []
    look = os.path.realpath

    def ask(path: str | Path) -> str:
        asked.append(str(path))
        return look(path)

    monkeypatch.setattr(os.path, "realpath", ask)

    assert catalog.resolve(str(folder)).id == "tiny"
    assert catalog.resolve(f"{folder.parent}/x/../tiny/").id == "tiny"

    for name in (str(tmp_path / "link"), "/net/evil.example/share", f"{tmp_path}/models/../models/tiny/../../link"):
        with pytest.raises(ModelNotFound):
            catalog.resolve(name)

    assert set(asked) <= {str(folder)}
