"""Attention of a step that holds rows of a prompt: one sequence after the other, each at its exact length.

The body of a Loop; `paged_attention.py` puts it into every layer.
"""

import numpy as np

from prism.export.graph import CONTRIB, GraphPart
from prism.export.llama import LlamaShape
from prism.export.paged_steps import Pool, Step


class PrefillBody:
    """The body of the loop over the sequences of a step: one sequence, at its exact length."""

    def __init__(self, shape: LlamaShape, step: Step, pool: Pool, name: str) -> None:
        self._shape = shape
        self._step = step
        self._pool = pool
        self._name = f"{name}.each"
        self.part = GraphPart()

    def write(self, projections: tuple[str, str, str], pools: tuple[str, str]) -> None:
        """Fill `part`: takes the number of the sequence and what has been attended so far, gives it with this sequence's rows behind."""
        part, name, width = self.part, self._name, self._shape.heads * self._shape.head_size
        number = part.input(f"{name}.number", np.int64, [])
        go_on = part.input(f"{name}.go_on", np.bool_, [])
        before = part.input(f"{name}.before", np.float32, [1, "rows_before", width])
        axis = part.small_constant(f"{name}.axis", np.asarray([1], np.int64))

        start, end, past = (
            self._of_sequence(values, number, kind)
            for values, kind in ((self._step.starts, "start"), (self._step.ends, "end"), (self._step.past, "past"))
        )
        rows = [
            part.node("Slice", [projection, start, end, axis], f"{name}.{kind}")
            for projection, kind in zip(projections, ("query", "key", "value"), strict=True)
        ]
        columns = self._columns(number, past)
        pasts = [
            self._past(pool, columns, past, kind) for pool, kind in zip(pools, ("past_key", "past_value"), strict=True)
        ]
        attended = self._attention(rows, pasts, number)
        part.node("Concat", [before, attended], f"{name}.after", attributes={"axis": 1})
        part.node("Identity", [go_on], f"{name}.goes_on")
        part.output(f"{name}.goes_on", np.bool_, [])
        part.output(f"{name}.after", np.float32, [1, "rows_after", width])

    def _of_sequence(self, values: str, number: str, kind: str) -> str:
        """One number of this sequence, as a vector of one."""
        scalar = self.part.node("Gather", [values, number], f"{self._name}.{kind}.scalar")
        axis = self.part.small_constant(f"{self._name}.axis0", np.asarray([0], np.int64))

        return self.part.node("Unsqueeze", [scalar, axis], f"{self._name}.{kind}")

    def _columns(self, number: str, past: str) -> str:
        """The blocks that hold the past of this sequence."""
        part, name = self.part, self._name
        one = part.small_constant(f"{name}.one", np.asarray([1], np.int64))
        rounded = part.node("Add", [past, self._pool.block_size], f"{name}.past.up")
        below = part.node("Sub", [rounded, one], f"{name}.past.rounded")
        count = part.node("Div", [below, self._pool.block_size], f"{name}.past.blocks")
        row = part.node("Gather", [self._step.table, number], f"{name}.table", attributes={"axis": 0})

        return part.node("Slice", [row, f"{name}.axis0", count], f"{name}.columns")

    def _past(self, pool: str, columns: str, past: str, kind: str) -> str:
        """The keys or values of the past, [1, kv_heads, past, head_size]: not one more, for the kernel counts them."""
        part, name, shape = self.part, f"{self._name}.{kind}", self._shape
        blocks = part.node("Gather", [pool, columns], f"{name}.blocks", attributes={"axis": 1})
        # -1 cannot be inferred of nothing, and a sequence that has just begun has no past.
        count = part.node("Size", [columns], f"{name}.count")
        length = part.node("Mul", [count, self._pool.block_size], f"{name}.length")
        vector = part.node("Unsqueeze", [length, f"{self._name}.axis0"], f"{name}.length.vector")
        ends = [
            part.small_constant(f"{name}.front", np.asarray([1, shape.kv_heads], np.int64)),
            part.small_constant(f"{name}.back", np.asarray([shape.head_size], np.int64)),
        ]
        size = part.node("Concat", [ends[0], vector, ends[1]], f"{name}.shape", attributes={"axis": 0})
        padded = part.node("Reshape", [blocks, size], f"{name}.padded", attributes={"allowzero": 1})
        axis = part.small_constant(f"{name}.axis", np.asarray([2], np.int64))

        return part.node("Slice", [padded, f"{self._name}.axis0", past, axis], f"{name}.exact")

    def _attention(self, rows: list[str], pasts: list[str], number: str) -> str:
        part, name, shape = self.part, self._name, self._shape
        total = part.node("Gather", [self._step.total, number], f"{name}.total.int64")
        total_32 = part.cast(total, np.int32, f"{name}.total")
        one = part.small_constant(f"{name}.one.int32", np.asarray([1], np.int32))
        last = part.node("Sub", [total_32, one], f"{name}.last")

        return part.node(
            "GroupQueryAttention",
            [*rows, *pasts, last, total_32],
            [f"{name}.attended", f"{name}.present_key", f"{name}.present_value"],
            domain=CONTRIB,
            attributes={
                "num_heads": shape.heads,
                "kv_num_heads": shape.kv_heads,
                "scale": shape.head_size**-0.5,
                "do_rotary": 0,
            },
        )
