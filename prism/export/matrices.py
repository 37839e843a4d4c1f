"""How a weight matrix becomes nodes, in each of the forms of `layout.py`. Called by `llama_graph.py`."""

import numpy as np

from prism.export.blocks import BLOCK, AffineBlocks, dequantized, to_affine_blocks
from prism.export.embedding import FloatEmbedding, PackedEmbedding, SplitEmbedding, TiedEmbedding
from prism.export.fine_vectors import FineVectors
from prism.export.graph import Graph
from prism.export.layout import HEAD, Form, Layout, Vectors
from prism.export.llama import Matrix
from prism.export.packed_nodes import Arithmetic, StoredMatrix, multiply, multiply_float, store_matrix
from prism.export.quantize import has_nibbles, pack_4bit, pack_8bit


class MatrixWriter:
    """Writes products with weight matrices in one layout."""

    def __init__(self, graph: Graph, layout: Layout) -> None:
        self._graph = graph
        self._layout = layout
        self._fine = FineVectors(graph)
        self._sums: dict[tuple[str, int], str] = {}

    def product(self, name: str, vectors: str, matrix: Matrix) -> str:
        """Multiply `vectors` [batch, length, inputs] by a matrix [outputs, inputs]; `name` becomes the product's name."""
        form = self._layout.form_of(name)

        match form.bits:
            case 32:
                weight = self._graph.constant(f"{name}.weight", dequantized(matrix))
                return multiply_float(self._graph, name, vectors, weight)
            case 8:
                stored = store_matrix(self._graph, name, pack_8bit(_in_blocks(matrix, form)))
                return self._packed_product(name, vectors, stored, form.vectors)
            case 4:
                return self._product_of_nibbles(name, vectors, matrix, form)
            case _:
                raise ValueError(f"there is no form of {form.bits} bits")

    def tied(self, matrix: Matrix) -> TiedEmbedding:
        """Store the matrix that is both the embedding and the output head."""
        form = self._layout.form_of(HEAD)

        if form.bits == 32:
            return FloatEmbedding(self._graph, matrix)

        if form.vectors is Vectors.FLOAT:
            return SplitEmbedding(self._graph, matrix)

        def multiplied(name: str, vectors: str, stored: StoredMatrix) -> str:
            return self._packed_product(name, vectors, stored, form.vectors)

        return PackedEmbedding(self._graph, _in_blocks(matrix, form), multiplied)

    def _packed_product(self, name: str, vectors: str, stored: StoredMatrix, kind: Vectors) -> str:
        graph = self._graph

        match kind:
            case Vectors.FLOAT:
                return multiply(graph, name, vectors, stored, Arithmetic.FLOAT)
            case Vectors.ROUNDED:
                return multiply(graph, name, vectors, stored, Arithmetic.ROUNDED)
            case Vectors.FINE:
                halves = self._fine.halves(vectors, stored.packed.block)
                return self._fine.sum(multiply(graph, f"{name}.halves", halves, stored, Arithmetic.ROUNDED), name)

    def _product_of_nibbles(self, name: str, vectors: str, matrix: Matrix, form: Form) -> str:
        """The levels around an integer zero point, and what is left of each block's offset times the sum of its inputs."""
        packed, rest = pack_4bit(_in_blocks(matrix, form))
        graph = self._graph

        stored = store_matrix(graph, name, packed)
        centred = self._packed_product(f"{name}.centred", vectors, stored, form.vectors)
        offsets = graph.constant(f"{name}.offsets", rest)
        shift = multiply_float(graph, f"{name}.shift", self._block_sums(vectors, form.block), offsets)

        return graph.node("Add", [centred, shift], name)

    def _block_sums(self, vectors: str, block: int) -> str:
        """The sums of each `block` neighbours of `vectors`, made once for all products that read the same vectors."""
        if (vectors, block) not in self._sums:
            graph = self._graph
            grouping = graph.constant(f"blocks.shape.{block}", np.asarray([0, 0, -1, block], np.int64))
            axis = graph.constant("blocks.axis", np.asarray([-1], np.int64))
            grouped = graph.node("Reshape", [vectors, grouping], f"{vectors}.blocks.{block}")
            self._sums[vectors, block] = graph.node(
                "ReduceSum", [grouped, axis], f"{vectors}.block_sums.{block}", attributes={"keepdims": 0}
            )

        return self._sums[vectors, block]


def _in_blocks(matrix: Matrix, form: Form) -> AffineBlocks:
    """The source's own blocks where the form can hold them; else the weights rounded anew."""
    if isinstance(matrix, AffineBlocks) and form.block == BLOCK and (form.bits == 8 or has_nibbles(matrix)):
        return matrix

    return to_affine_blocks(dequantized(matrix), bits=form.bits, block=form.block)
