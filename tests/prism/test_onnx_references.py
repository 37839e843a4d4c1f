"""What a graph says about files beside it."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.onnx_references import external_data_files


def test_a_graph_with_its_own_weights_refers_to_nothing() -> None:
    assert external_data_files(b"\x08\x0a\x12\x04test" + bytes(1000)) == frozenset()


@pytest.mark.parametrize("name", ["model.onnx.data", "w" * 127, "w" * 128, "w" * 200, "gewichte-ü.bin"])
def test_the_files_that_the_onnx_library_writes_are_found(tmp_path: Path, name: str) -> None:
    onnx = pytest.importorskip("onnx")
    tensor = onnx.numpy_helper.from_array(np.arange(4096, dtype=np.float32), "weight")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["weight"], ["out"])],
        "graph",
        [],
        [onnx.helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, [4096])],
        [tensor],
    )
    onnx.save_model(onnx.helper.make_model(graph), tmp_path / "model.onnx", save_as_external_data=True, location=name)

    assert external_data_files((tmp_path / "model.onnx").read_bytes()) == {name}


def test_a_location_in_a_models_own_notes_is_no_data_file() -> None:
    onnx = pytest.importorskip("onnx")
    graph = onnx.helper.make_graph([], "graph", [], [])
    model = onnx.helper.make_model(graph)
    onnx.helper.set_model_props(model, {"location": "Berlin"})

    assert external_data_files(model.SerializeToString()) == frozenset()


@given(st.binary(max_size=400))
def test_no_bytes_make_it_fail(content: bytes) -> None:
    external_data_files(b"\x6a\x20\x0a\x08location\x12" + content)
