"""Loading for real: devices that are not there, folders that are broken."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpu_worker.engine import GenAiEngine, import_library, load_engine
from gpu_worker.errors import LoadFault
from gpu_worker.load_options import LoadOptions
from gpu_worker.model_folder import read_model_folder
from ipc.messages import Device, DeviceChoice, LoadFailCode

pytestmark = pytest.mark.engine
Copy = Callable[..., Path]


def load(folder: Path) -> GenAiEngine:
    return load_engine(import_library(), read_model_folder(folder), DeviceChoice.CPU, None, LoadOptions(threads=1))


def test_a_folder_exported_for_cuda_runs_on_the_cpu_when_told(copy_model: Copy) -> None:
    folder = copy_model("phi-cuda-gpu")
    config = json.loads((folder / "genai_config.json").read_text())
    config["model"]["decoder"]["session_options"]["provider_options"] = [{"cuda": {"enable_cuda_graph": "0"}}]
    (folder / "genai_config.json").write_text(json.dumps(config))
    assert load(folder).facts.device is Device.CPU


def test_asking_for_cuda_where_there_is_none_names_the_cause(tiny_model: Path) -> None:
    with pytest.raises(LoadFault, match=r"CUDA cannot be used: .*\(no NVIDIA GPU was found\)") as caught:
        load_engine(
            import_library(), read_model_folder(tiny_model), DeviceChoice.CUDA, "no NVIDIA GPU was found", LoadOptions()
        )

    assert caught.value.code is LoadFailCode.DEVICE_UNAVAILABLE


def test_auto_falls_back_to_the_cpu_with_the_engines_reason(tiny_model: Path) -> None:
    engine = load_engine(import_library(), read_model_folder(tiny_model), DeviceChoice.AUTO, None, LoadOptions())
    assert engine.facts.device is Device.CPU
    assert engine.facts.fallback_reason is not None
    assert engine.facts.fallback_reason.startswith("CUDA cannot be used: ")


Break = Callable[[Path], object]
BROKEN: Sequence[tuple[str, Break]] = [
    ("truncated graph", lambda f: (f / "model.onnx").write_bytes((f / "model.onnx").read_bytes()[:1_000])),
    ("zeros for a graph", lambda f: (f / "model.onnx").write_bytes(bytes(1_000))),
    ("pointer for a graph", lambda f: (f / "model.onnx").write_text("version https://git-lfs.github.com/spec/v1\n")),
    ("no tokenizer config", lambda f: (f / "tokenizer_config.json").unlink()),
    ("broken tokenizer", lambda f: (f / "tokenizer.json").write_text('{"model": {"vocab": {}}}')),
]


@pytest.mark.parametrize(("name", "spoil"), BROKEN, ids=[name for name, _ in BROKEN])
def test_a_broken_folder_is_a_bad_model(copy_model: Copy, name: str, spoil: Break) -> None:
    folder = copy_model()
    spoil(folder)

    with pytest.raises(LoadFault) as caught:
        load(folder)

    assert caught.value.code is LoadFailCode.BAD_MODEL
    assert str(caught.value)


def test_a_model_of_unknown_type_is_a_bad_model(copy_model: Copy) -> None:
    with pytest.raises(LoadFault, match="zzz") as caught:
        load(copy_model(type="zzz"))

    assert caught.value.code is LoadFailCode.BAD_MODEL
