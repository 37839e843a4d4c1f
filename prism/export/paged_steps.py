"""What every layer of a paged graph shares: which sequence each row of a step belongs to, and where its keys and values lie in the pool.

A step is the rows of several sequences one after the other, as the engine packs them: some rows of a prompt here, one new token there. The
engine owns the pool of blocks and tells by a table which blocks a sequence has; it never looks inside, so the order of the numbers in the
pool is ours. Ours is [kv_heads, slots, head_size] (slot: a place for one token), which lets a block be gathered without a transposition.
Called by `paged_attention.py`. Writes nodes only.
"""

from dataclasses import dataclass

import numpy as np

from prism.export.graph import Graph
from prism.export.llama import LlamaShape


@dataclass(frozen=True, slots=True)
class Pool:
    """The sizes of the engine's pool, as values of the graph: int64 scalars, so that another pool needs no other graph."""

    blocks: str
    block_size: str
    slots: str


@dataclass(frozen=True, slots=True)
class Step:
    """One run of the model. Names of values; B sequences, T rows, C columns of the block table.

    starts, ends: int64 [B], the rows of each sequence. past: int64 [B], tokens that are in the pool already. total: past plus new ones.
    table: int64 [B, columns]. position_ids: int64 [1, T]. is_decode: bool scalar, each sequence has one row.
    """

    starts: str
    ends: str
    past: str
    total: str
    table: str
    position_ids: str
    rows: str
    is_decode: str


@dataclass(frozen=True, slots=True)
class Places:
    """Where this step writes. key: int64 [T, kv_heads, 3], coordinates in the pool's declared shape. value: the same and, behind it, the
    unused slots of blocks that are touched for the first time; zeros: float32 [unused, kv_heads, head_size] for those."""

    key: str
    value: str
    zeros: str


class StepWriter:
    """Writes the nodes that run once a step."""

    def __init__(self, graph: Graph, shape: LlamaShape) -> None:
        self._graph = graph
        self._shape = shape

    def step(self) -> tuple[str, Step]:
        """Declare the engine's inputs. Returns the token ids [1, T] and what follows from the other inputs."""
        graph = self._graph
        ids = graph.input("input_ids", np.int64, ["num_tokens"])
        bounds = self._wide(graph.input("cumulative_sequence_lengths", np.int32, ["batch_size_plus_1"]))
        past = self._wide(graph.input("past_sequence_lengths", np.int32, ["batch_size"]))
        table = self._wide(graph.input("block_table", np.int32, ["batch_size", "block_columns"]))

        starts = self._slice(bounds, 0, -1, "step.starts")
        ends = self._slice(bounds, 1, None, "step.ends")
        lengths = graph.node("Sub", [ends, starts], "step.lengths")
        total = graph.node("Add", [past, lengths], "step.total")
        rows = self._sequence_of_rows(ids, ends)
        position = self._positions(rows, starts, past)
        longest = graph.node("ReduceMax", [lengths], "step.longest", attributes={"keepdims": 0})
        is_decode = graph.node("Equal", [longest, self.number(1)], "step.is_decode")
        batched = graph.node("Unsqueeze", [ids, self.axis(0)], "step.ids")
        position_ids = graph.node("Unsqueeze", [position, self.axis(0)], "step.position_ids")

        return batched, Step(starts, ends, past, total, table, position_ids, rows, is_decode)

    def pool(self, cache: str) -> Pool:
        """Read the sizes of the pool off one of its tensors, [blocks, block_size, kv_heads, head_size]."""
        graph = self._graph
        sizes = graph.node("Shape", [cache], "pool.shape", attributes={"start": 0, "end": 2})
        blocks = graph.node("Gather", [sizes, self.number(0)], "pool.blocks")
        block_size = graph.node("Gather", [sizes, self.number(1)], "pool.block_size")

        return Pool(blocks, block_size, graph.node("Mul", [blocks, block_size], "pool.slots"))

    def places(self, step: Step, pool: Pool) -> Places:
        """Find the slots of the step's rows, and those that must be cleared."""
        graph = self._graph
        position = graph.node("Squeeze", [step.position_ids, self.axis(0)], "place.position")
        slots = self._slots(step.table, step.rows, position, pool, "place")
        key = self._coordinates(slots, pool, "place.key")
        unused = self._coordinates(self._unused_slots(step, pool), pool, "place.unused")
        value = graph.node("Concat", [key, unused], "place.value", attributes={"axis": 0})
        count = graph.node("Shape", [unused], "place.unused.count", attributes={"start": 0, "end": 1})
        width = graph.small_constant("place.width", np.asarray([self._shape.kv_heads, self._shape.head_size], np.int64))
        size = graph.node("Concat", [count, width], "place.zeros.shape", attributes={"axis": 0})
        zero = graph.small_constant("place.zero", np.asarray([0], np.float32))

        return Places(key, value, graph.node("Expand", [zero, size], "place.zeros"))

    def number(self, value: int) -> str:
        """An int64 scalar."""
        return self._graph.small_constant(f"number.{value}", np.asarray(value, np.int64))

    def axis(self, value: int) -> str:
        """An int64 vector of one."""
        return self._graph.small_constant(f"axis.{value}", np.asarray([value], np.int64))

    def _wide(self, name: str) -> str:
        return self._graph.cast(name, np.int64, f"{name}.int64")

    def _slice(self, value: str, first: int, end: int | None, name: str) -> str:
        last = self.axis(np.iinfo(np.int64).max if end is None else end)

        return self._graph.node("Slice", [value, self.axis(first), last], name)

    def _sequence_of_rows(self, ids: str, ends: str) -> str:
        """Row t belongs to the sequence whose number is how many sequences have ended at or before t: int64 [T]."""
        graph = self._graph
        length = graph.node("Size", [ids], "rows.count")
        row = graph.node("Range", [self.number(0), length, self.number(1)], "rows.number")
        column = graph.node("Unsqueeze", [row, self.axis(1)], "rows.column")
        is_over = graph.node("LessOrEqual", [ends, column], "rows.is_over")
        counted = graph.cast(is_over, np.int64, "rows.is_over.int64")

        return graph.node("ReduceSum", [counted, self.axis(1)], "rows.sequence", attributes={"keepdims": 0})

    def _positions(self, rows: str, starts: str, past: str) -> str:
        """The place of each row in its own sequence: int64 [T]."""
        graph = self._graph
        before = graph.node("Sub", [past, starts], "rows.shift")
        shift = graph.node("Gather", [before, rows], "rows.shift.each")

        return graph.node("Add", ["rows.number", shift], "rows.position")

    def _slots(self, table: str, sequence: str, position: str, pool: Pool, name: str) -> str:
        """The slots of positions: int64 like `position`."""
        graph = self._graph
        column = graph.node("Div", [position, pool.block_size], f"{name}.column")
        within = graph.node("Mod", [position, pool.block_size], f"{name}.within")
        pairs = [graph.node("Unsqueeze", [part, self.axis(-1)], f"{part}.{name}.last") for part in (sequence, column)]
        cell = graph.node("Concat", pairs, f"{name}.cell", attributes={"axis": -1})
        block = graph.node("GatherND", [table, cell], f"{name}.block")
        first = graph.node("Mul", [block, pool.block_size], f"{name}.first")

        return graph.node("Add", [first, within], f"{name}.slot")

    def _unused_slots(self, step: Step, pool: Pool) -> str:
        """Slots behind the last token of blocks that are touched for the first time: int64 [unused].

        The pool is memory as it was found, and 0 * NaN is NaN: a masked value must be a number. Keys need no care, since their scores are
        replaced and not added to.
        """
        graph = self._graph
        last = graph.node("Sub", [step.total, self.number(1)], "unused.last")
        column = graph.node("Div", [last, pool.block_size], "unused.column")
        first = graph.node("Mul", [column, pool.block_size], "unused.first")
        is_new = graph.node("LessOrEqual", [step.past, first], "unused.is_new")
        offsets = graph.node("Range", [self.number(0), pool.block_size, self.number(1)], "unused.offsets")
        first_column = graph.node("Unsqueeze", [first, self.axis(1)], "unused.first.column")
        grid = graph.node("Add", [first_column, offsets], "unused.grid")
        total_column = graph.node("Unsqueeze", [step.total, self.axis(1)], "unused.total.column")
        is_behind = graph.node("GreaterOrEqual", [grid, total_column], "unused.is_behind")
        is_new_column = graph.node("Unsqueeze", [is_new, self.axis(1)], "unused.is_new.column")
        is_unused = graph.node("And", [is_behind, is_new_column], "unused.is_unused")
        found = graph.node("NonZero", [is_unused], "unused.found")
        sequence = graph.node("Gather", [found, self.number(0)], "unused.sequence", attributes={"axis": 0})
        cells = graph.node("Transpose", [found], "unused.cells", attributes={"perm": [1, 0]})
        position = graph.node("GatherND", [grid, cells], "unused.position")

        return self._slots(step.table, sequence, position, pool, "unused.place")

    def _coordinates(self, slots: str, pool: Pool, name: str) -> str:
        """Where the rows of a slot lie, one for each head, in the shape that the pool is declared with: int64 [slots, kv_heads, 3]."""
        graph, heads = self._graph, self._shape.kv_heads
        head = graph.small_constant("pool.heads", np.arange(heads, dtype=np.int64))
        first = graph.node("Mul", [head, pool.slots], f"{name}.head.first")
        slot = graph.node("Unsqueeze", [slots, self.axis(1)], f"{name}.slot.column")
        row = graph.node("Add", [slot, first], f"{name}.row")
        place = graph.node("Div", [row, self.number(heads)], f"{name}.place")
        parts = [
            graph.node("Div", [place, pool.block_size], f"{name}.0"),
            graph.node("Mod", [place, pool.block_size], f"{name}.1"),
            graph.node("Mod", [row, self.number(heads)], f"{name}.2"),
        ]
        columns = [graph.node("Unsqueeze", [part, self.axis(-1)], f"{part}.column") for part in parts]

        return graph.node("Concat", columns, name, attributes={"axis": -1})
