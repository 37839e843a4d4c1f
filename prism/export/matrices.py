"""How a weight matrix becomes nodes, in each of the precisions. Called by `llama_graph.py`.

Distance of the logits from a float64 forward pass of the demo model (relative, mean of five prompts), size, and speed on two cores:

    fp32  below 0.00001  540 MB  37 tokens/s
    int8  0.041          160 MB  92 tokens/s   the activations are rounded to 8 bits too, which is where the distance comes from
    int4  below 0.00001  120 MB  55 tokens/s   the source's own 4-bit levels, multiplied in float32

Asked for the capital of France, the demo model's two best first tokens ("The" and "L") are 0.08 apart: int8 takes the wrong one.
"""

from enum import StrEnum

import numpy as np

from prism.export.blocks import BLOCK, AffineBlocks, dequantized, to_affine_blocks
from prism.export.embedding import FloatEmbedding, RoundedEmbedding, SplitEmbedding, TiedEmbedding
from prism.export.graph import Graph
from prism.export.llama import Matrix
from prism.export.packed_nodes import Arithmetic, multiply, multiply_float, store_matrix
from prism.export.quantize import has_nibbles, pack_4bit, pack_8bit


class Precision(StrEnum):
    """How weights are stored. The embedding, which is also the output head, has 8 bits in both quantised forms."""

    FP32 = "fp32"
    INT8 = "int8"
    INT4 = "int4"


class MatrixWriter:
    """Writes products with weight matrices in one precision."""

    def __init__(self, graph: Graph, precision: Precision) -> None:
        self._graph = graph
        self._precision = precision
        self._sums: dict[str, str] = {}

    def product(self, name: str, vectors: str, matrix: Matrix) -> str:
        """Multiply `vectors` [batch, length, inputs] by a matrix [outputs, inputs]; `name` becomes the product's name."""
        match self._precision:
            case Precision.FP32:
                weight = self._graph.constant(f"{name}.weight", dequantized(matrix))
                return multiply_float(self._graph, name, vectors, weight)
            case Precision.INT8:
                blocks = matrix if isinstance(matrix, AffineBlocks) else to_affine_blocks(matrix, bits=8)
                stored = store_matrix(self._graph, name, pack_8bit(blocks))
                return multiply(self._graph, name, vectors, stored, Arithmetic.ROUNDED)
            case Precision.INT4:
                return self._product_of_nibbles(name, vectors, matrix)

    def tied(self, matrix: Matrix) -> TiedEmbedding:
        """Store the matrix that is both the embedding and the output head."""
        match self._precision:
            case Precision.FP32:
                return FloatEmbedding(self._graph, matrix)
            case Precision.INT8:
                return RoundedEmbedding(self._graph, matrix)
            case Precision.INT4:
                return SplitEmbedding(self._graph, matrix)

    def _product_of_nibbles(self, name: str, vectors: str, matrix: Matrix) -> str:
        """The levels around an integer zero point, and what is left of each block's offset times the sum of its inputs."""
        is_ready = isinstance(matrix, AffineBlocks) and has_nibbles(matrix)
        blocks = (
            matrix if isinstance(matrix, AffineBlocks) and is_ready else to_affine_blocks(dequantized(matrix), bits=4)
        )
        packed, rest = pack_4bit(blocks)
        graph = self._graph

        centred = multiply(graph, f"{name}.centred", vectors, store_matrix(graph, name, packed), Arithmetic.FLOAT)
        offsets = graph.constant(f"{name}.offsets", rest)
        shift = multiply_float(graph, f"{name}.shift", self._block_sums(vectors), offsets)

        return graph.node("Add", [centred, shift], name)

    def _block_sums(self, vectors: str) -> str:
        """The sums of each 32 neighbours of `vectors`, made once for all products that read the same vectors."""
        if vectors not in self._sums:
            graph = self._graph
            grouping = graph.constant("blocks.shape", np.asarray([0, 0, -1, BLOCK], np.int64))
            axis = graph.constant("blocks.axis", np.asarray([-1], np.int64))
            grouped = graph.node("Reshape", [vectors, grouping], f"{vectors}.blocks")
            self._sums[vectors] = graph.node(
                "ReduceSum", [grouped, axis], f"{vectors}.block_sums", attributes={"keepdims": 0}
            )

        return self._sums[vectors]
