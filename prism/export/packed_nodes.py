"""The nodes that read packed weights: MatMulNBits and GatherBlockQuantized, both from bytes that are stored once.

Called by `matrices.py` and `embedding.py`. Blocks on the data file that the graph writes to.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from prism.export.graph import CONTRIB, Graph, Stored
from prism.export.quantize import PackedMatrix


class Arithmetic(IntEnum):
    """MatMulNBits' `accuracy_level`. FLOAT is fast for 4 bits only; ROUNDED rounds the activations to 8 bits, block by block.

    What the kernels of the CPU provider make of the others: 0, 2 and 3 are 1.
    """

    FLOAT = 1
    ROUNDED = 4


@dataclass(frozen=True, slots=True)
class StoredMatrix:
    """A packed matrix whose bytes are in the data file. tail: the names of its scales and, if it has them, its zero points."""

    name: str
    packed: PackedMatrix
    place: Stored
    tail: tuple[str, ...]


def store_matrix(graph: Graph, name: str, packed: PackedMatrix) -> StoredMatrix:
    """Write a packed matrix to the data file."""
    tail = [graph.constant(f"{name}.scales", packed.scales)]

    if packed.zero_points is not None:
        tail.append(graph.constant(f"{name}.zeros", packed.zero_points))

    return StoredMatrix(name, packed, graph.store(packed.levels), tuple(tail))


def multiply(graph: Graph, output: str, vectors: str, matrix: StoredMatrix, arithmetic: Arithmetic) -> str:
    """`vectors` [.., columns] times the matrix, [.., rows]."""
    packed = matrix.packed
    levels = graph.stored_constant(f"{matrix.name}.levels", matrix.place, np.uint8, packed.levels.shape)
    attributes = {
        "K": packed.columns,
        "N": packed.rows,
        "bits": packed.bits,
        "block_size": packed.block,
        "accuracy_level": int(arithmetic),
    }

    return graph.node("MatMulNBits", [vectors, levels, *matrix.tail], output, domain=CONTRIB, attributes=attributes)


def look_up(graph: Graph, output: str, ids: str, matrix: StoredMatrix) -> str:
    """The rows `ids` of the matrix, as float32. Names the bytes of `multiply` a second time, in two dimensions."""
    packed = matrix.packed
    shape = (packed.rows, packed.columns * packed.bits // 8)
    rows = graph.stored_constant(f"{matrix.name}.rows", matrix.place, np.uint8, shape)
    attributes = {"bits": packed.bits, "block_size": packed.block, "gather_axis": 0, "quantize_axis": 1}

    return graph.node("GatherBlockQuantized", [rows, ids, *matrix.tail], output, domain=CONTRIB, attributes=attributes)


def multiply_float(graph: Graph, output: str, vectors: str, weight: str) -> str:
    """`vectors` times a float32 constant [rows, columns]."""
    return graph.node("FusedMatMul", [vectors, weight], output, domain=CONTRIB, attributes={"transB": 1})
