"""Vectors as sums of two whose products in 8-bit arithmetic are exact: what the kernel's rounding keeps, and what it leaves.

The kernel rounds each block of a vector to multiples of its greatest magnitude over 127. Vectors that hold such multiples already pass
unchanged, and the rest is so small that its own rounding no longer shows (1 part in 32,000 of the block's greatest). Both go through one
product, the rests as further rows: the weights are read once. Called by `matrices.py`. Writes nodes only.
"""

import numpy as np

from prism.export.graph import Graph

_LEVELS = 127
# Divides a block of zeros.
_LEAST_STEP = 1e-30


class FineVectors:
    """Writes the two halves of vectors, once for all products that read the same."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._halves: dict[tuple[str, int], str] = {}

    def halves(self, vectors: str, block: int) -> str:
        """`vectors` [batch, length, inputs] as [2 * batch, length, inputs], the rests last."""
        if (vectors, block) not in self._halves:
            self._halves[vectors, block] = self._write(vectors, block)

        return self._halves[vectors, block]

    def sum(self, products: str, name: str) -> str:
        """[2 * batch, ..] back to [batch, ..]."""
        halves = [f"{products}.kept", f"{products}.rest"]
        self._graph.node("Split", [products], halves, attributes={"axis": 0, "num_outputs": 2})

        return self._graph.node("Add", halves, name)

    def _write(self, vectors: str, block: int) -> str:
        graph = self._graph
        grouping = graph.constant(f"fine.shape.{block}", np.asarray([0, 0, -1, block], np.int64))
        grouped = graph.node("Reshape", [vectors, grouping], f"{vectors}.fine.blocks")
        step = self._step(grouped, f"{vectors}.fine")
        scaled = graph.node("Div", [grouped, step], f"{vectors}.fine.scaled")
        whole = graph.node("Round", [scaled], f"{vectors}.fine.whole")
        kept = graph.node("Mul", [whole, step], f"{vectors}.fine.kept")
        rest = graph.node("Sub", [grouped, kept], f"{vectors}.fine.rest")
        both = graph.node("Concat", [kept, rest], f"{vectors}.fine.both", attributes={"axis": 0})
        joining = graph.constant("fine.joined", np.asarray([0, 0, -1], np.int64))

        return graph.node("Reshape", [both, joining], f"{vectors}.fine")

    def _step(self, grouped: str, name: str) -> str:
        """What the kernel will round to."""
        graph = self._graph
        axis = graph.constant("fine.axis", np.asarray([-1], np.int64))
        size = graph.node("Abs", [grouped], f"{name}.size")
        most = graph.node("ReduceMax", [size, axis], f"{name}.most")
        share = graph.constant("fine.share", np.asarray(1 / _LEVELS, np.float32))
        least = graph.constant("fine.least", np.asarray(_LEAST_STEP, np.float32))

        return graph.node("Max", [graph.node("Mul", [most, share], f"{name}.share"), least], f"{name}.step")
