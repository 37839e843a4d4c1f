"""The matrix that is both the embedding and the output head, in each of the precisions. Its bytes are stored once.

Called by `llama_graph.py` through `matrices.py`.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from prism.export.blocks import AffineBlocks, dequantized, to_centred_blocks
from prism.export.graph import Graph
from prism.export.layout import HEAD
from prism.export.llama import Matrix
from prism.export.packed_nodes import Arithmetic, StoredMatrix, look_up, multiply, multiply_float, store_matrix
from prism.export.quantize import is_centred, pack_8bit, split_8bit

Multiply: TypeAlias = Callable[[str, str, StoredMatrix], str]


class TiedEmbedding(Protocol):
    """What the graph needs at its two ends."""

    def look_up(self, ids: str) -> str:
        """The rows of these token ids; named "embedding"."""

    def logits(self, hidden: str, name: str) -> str:
        """The product of `hidden` [.., .., hidden] that scores every token."""


class FloatEmbedding:
    """float32."""

    def __init__(self, graph: Graph, matrix: Matrix) -> None:
        self._graph = graph
        self._weight = graph.constant("embedding.weight", dequantized(matrix))

    def look_up(self, ids: str) -> str:
        """One Gather."""
        return self._graph.node("Gather", [self._weight, ids], "embedding")

    def logits(self, hidden: str, name: str) -> str:
        """One product."""
        return multiply_float(self._graph, name, hidden, self._weight)


class PackedEmbedding:
    """8 bits in one matrix. multiply(name, vectors, matrix): the product, in the arithmetic that is wanted."""

    def __init__(self, graph: Graph, blocks: AffineBlocks, multiply: Multiply) -> None:
        self._graph = graph
        self._multiply = multiply
        self._matrix = store_matrix(graph, HEAD, pack_8bit(blocks))

    def look_up(self, ids: str) -> str:
        """One Gather."""
        return look_up(self._graph, HEAD, ids, self._matrix)

    def logits(self, hidden: str, name: str) -> str:
        """One product."""
        return self._multiply(name, hidden, self._matrix)


class SplitEmbedding:
    """8 bits as two matrices of 4, whose fast kernel multiplies by the activations as they are."""

    def __init__(self, graph: Graph, matrix: Matrix) -> None:
        blocks = (
            matrix
            if isinstance(matrix, AffineBlocks) and is_centred(matrix)
            else to_centred_blocks(dequantized(matrix))
        )
        upper, lower = split_8bit(blocks)
        self._graph = graph
        self._halves = (store_matrix(graph, "embedding.upper", upper), store_matrix(graph, "embedding.lower", lower))

    def look_up(self, ids: str) -> str:
        """The sum of what both halves hold."""
        rows = [look_up(self._graph, f"{half.name}.found", ids, half) for half in self._halves]

        return self._graph.node("Add", rows, "embedding")

    def logits(self, hidden: str, name: str) -> str:
        """The sum of both products."""
        products = [
            multiply(self._graph, f"{half.name}.product", hidden, half, Arithmetic.FLOAT) for half in self._halves
        ]

        return self._graph.node("Add", products, name)
