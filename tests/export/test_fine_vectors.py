"""Vectors as the sum of two that 8-bit arithmetic takes exactly, run through the real kernel."""

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest

from prism.export.blocks import to_affine_blocks
from prism.export.fine_vectors import FineVectors
from prism.export.graph import Graph
from prism.export.packed_nodes import Arithmetic, multiply, store_matrix
from prism.export.quantize import pack_8bit

pytestmark = pytest.mark.engine

RANDOM = np.random.default_rng(5)
WEIGHTS = RANDOM.standard_normal((40, 96)).astype(np.float32)
PACKED = pack_8bit(to_affine_blocks(WEIGHTS, bits=8))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> onnxruntime.InferenceSession:
    folder = tmp_path_factory.mktemp("fine")

    with Graph(folder) as graph:
        vectors = graph.input("vectors", np.float32, ["batch", "length", 96])
        stored = store_matrix(graph, "matrix", PACKED)
        fine = FineVectors(graph)
        both = multiply(graph, "both", fine.halves(vectors, 32), stored, Arithmetic.ROUNDED)
        graph.output(fine.sum(both, "fine"), np.float32, ["batch", "length", 40])
        graph.output(
            multiply(graph, "rounded", vectors, stored, Arithmetic.ROUNDED), np.float32, ["batch", "length", 40]
        )
        graph.save()

    return onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])


def vectors_with_outliers(batch: int, length: int) -> npt.NDArray[np.float32]:
    """As activations are: one number of a block may be far greater than the others."""
    vectors = RANDOM.standard_normal((batch, length, 96)).astype(np.float32)
    vectors[..., 7] *= 50

    return vectors


def errors(model: onnxruntime.InferenceSession, vectors: npt.NDArray[np.float32]) -> tuple[float, float]:
    """Of the fine product and of the rounded one, relative to the exact product."""
    exact = vectors.astype(np.float64) @ PACKED.dequantize().astype(np.float64).T
    fine, rounded = model.run(["fine", "rounded"], {"vectors": vectors})

    def error(product: npt.NDArray[np.float32]) -> float:
        return float(np.linalg.norm(product - exact) / np.linalg.norm(exact))

    return error(fine), error(rounded)


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (1, 2), (3, 1), (1, 64), (2, 17)])
def test_the_product_is_a_hundred_times_nearer_than_with_rounded_vectors(
    model: onnxruntime.InferenceSession, batch: int, length: int
) -> None:
    fine, rounded = errors(model, vectors_with_outliers(batch, length))

    assert fine < 1e-4
    assert fine < rounded / 50


def test_blocks_of_zeros_and_tiny_numbers_stay_numbers(model: onnxruntime.InferenceSession) -> None:
    vectors = np.zeros((1, 3, 96), np.float32)
    vectors[0, 1, 40] = 1e-20
    vectors[0, 2] = 1e-38

    (fine,) = model.run(["fine"], {"vectors": vectors})

    assert np.isfinite(fine).all()
    assert np.array_equal(fine[0, 0], np.zeros(40, np.float32))


def test_a_row_has_the_same_product_alone_and_among_others(model: onnxruntime.InferenceSession) -> None:
    vectors = vectors_with_outliers(1, 4)

    (together,) = model.run(["fine"], {"vectors": vectors})
    (alone,) = model.run(["fine"], {"vectors": vectors[:, 2:3]})

    assert np.allclose(together[:, 2:3], alone, rtol=1e-5, atol=1e-5)
