"""Attention over a pool of blocks, as og.Engine keeps it for several sequences at once: plain operators, so that it runs on the CPU.

A step in which every sequence has one row (decoding) is one batched product over the blocks of all. A step with rows of a prompt goes
through its sequences one by one, each at its exact length, in the kernel that og.Generator uses too. Called by `llama_graph.py`.
"""

import numpy as np

from prism.export.attention import PAST_KEY, PAST_VALUE, PRESENT_KEY, PRESENT_VALUE, rotary_tables
from prism.export.graph import CONTRIB, Dimensions, Graph, GraphPart
from prism.export.llama import LlamaShape
from prism.export.paged_prefill import PrefillBody
from prism.export.paged_steps import Places, Pool, Step, StepWriter

# The score of a key that is not there. Not an infinity: a row without any key would become NaN.
_NO_SCORE = -3.0e38


class PagedAttention:
    """Implements `Attention` for a model of `engine.dynamic_batching`."""

    scores = "logits.of_rows"

    def __init__(self, graph: Graph, shape: LlamaShape) -> None:
        self._graph = graph
        self._shape = shape
        self._writer = StepWriter(graph, shape)
        self._groups = shape.heads // shape.kv_heads
        self._query_width = shape.heads * shape.head_size
        self._key_width = shape.kv_heads * shape.head_size

    def token_ids(self) -> str:
        """Declare the inputs, the first layer's pool among them, and derive once what every layer reads."""
        graph = self._graph
        ids, self._step = self._writer.step()
        self._pasts = [self._declare_past(layer) for layer in range(self._shape.layers)]
        self._pool: Pool = self._writer.pool(self._pasts[0][0])
        self._places: Places = self._writer.places(self._step, self._pool)
        self._view = self._view_shape()
        self._decode = _DecodeTable(graph, self._writer, self._step, self._pool)
        cosine, sine = rotary_tables(self._shape)
        self._rotary = [graph.constant("rotary.cos", cosine), graph.constant("rotary.sin", sine)]

        return ids

    def attend(self, layer: int, query_key_value: str) -> str:
        """Rotate, write into the pool, attend."""
        graph, name = self._graph, f"layer.{layer}"
        query, key, value = self._rotated(name, query_key_value)
        keys = self._write(layer, 0, key, self._places.key)
        values = self._write(layer, 1, value, self._places.value)
        decode, prefill = GraphPart(), GraphPart()
        self._attend_decoding(decode, f"{name}.decode", query, keys, values)
        self._attend_prefilling(prefill, f"{name}.prefill", (query, key, value), keys, values)

        return graph.node(
            "If",
            [self._step.is_decode],
            f"{name}.attention",
            bodies={"then_branch": decode, "else_branch": prefill},
        )

    def rows_for_head(self, hidden: str) -> str:
        """The last row of each sequence, [B, 1, hidden]."""
        graph = self._graph
        last = graph.node("Sub", [self._step.ends, self._writer.number(1)], "head.last")
        rows = graph.node("Gather", [hidden, last], "head.rows", attributes={"axis": 1})

        return graph.node("Transpose", [rows], "head.rows.packed", attributes={"perm": [1, 0, 2]})

    def declare_logits(self) -> None:
        """One row a sequence: the engine knows that by the name of the first dimension."""
        self._graph.node("Squeeze", [self.scores, self._writer.axis(1)], "logits")
        self._graph.output("logits", np.float32, ["batch_size", self._shape.vocabulary])

    def config_inputs(self) -> dict[str, str]:
        """The names under which the engine feeds this graph."""
        return {
            "input_ids": "input_ids",
            "cumulative_sequence_lengths": "cumulative_sequence_lengths",
            "past_sequence_lengths": "past_sequence_lengths",
            "block_table": "block_table",
            "past_key_names": PAST_KEY,
            "past_value_names": PAST_VALUE,
        }

    def _cache_dimensions(self) -> Dimensions:
        return ["num_blocks", "block_size", self._shape.kv_heads, self._shape.head_size]

    def _declare_past(self, layer: int) -> tuple[str, str]:
        key, value = (
            self._graph.input(name % layer, np.float32, self._cache_dimensions()) for name in (PAST_KEY, PAST_VALUE)
        )

        return key, value

    def _rotated(self, name: str, query_key_value: str) -> tuple[str, str, str]:
        """Split the stacked projections and rotate queries and keys in one node: [1, T, width] each."""
        graph = self._graph
        both, key_width = self._query_width + self._key_width, self._key_width
        sizes = graph.small_constant("rotary.split", np.asarray([both, key_width], np.int64))
        parts = [f"{name}.query_key", f"{name}.value"]
        graph.node("Split", [query_key_value, sizes], parts, attributes={"axis": 2})
        inputs = [parts[0], self._step.position_ids, *self._rotary]
        rotated = graph.node("RotaryEmbedding", inputs, f"{name}.rotated", domain=CONTRIB)
        heads = graph.small_constant("heads.split", np.asarray([self._query_width, key_width], np.int64))
        names = [f"{name}.query", f"{name}.key"]
        graph.node("Split", [rotated, heads], names, attributes={"axis": 2})

        return names[0], names[1], parts[1]

    def _write(self, layer: int, which: int, rows: str, places: str) -> str:
        """Put the rows into the pool, and return the pool as [kv_heads, blocks, block_size * head_size].

        The node reads the graph's input and writes its output without anything between: the engine binds both to the same memory, and only
        so does the runtime not copy the pool.
        """
        graph, shape = self._graph, self._shape
        present_name = (PRESENT_KEY, PRESENT_VALUE)[which] % layer
        packed = graph.small_constant("rows.shape", np.asarray([-1, shape.kv_heads, shape.head_size], np.int64))
        updates = graph.node("Reshape", [rows, packed], f"{present_name}.rows")

        if which == 1:
            updates = graph.node(
                "Concat", [updates, self._places.zeros], f"{present_name}.updates", attributes={"axis": 0}
            )

        graph.output(present_name, np.float32, self._cache_dimensions())
        graph.node("ScatterND", [self._pasts[layer][which], places, updates], present_name)

        return graph.node("Reshape", [present_name, self._view], f"{present_name}.view")

    def _view_shape(self) -> str:
        """The shape [kv_heads, blocks, rest]."""
        graph = self._graph
        blocks = graph.node("Unsqueeze", [self._pool.blocks, self._writer.axis(0)], "view.blocks")
        parts = [self._writer.axis(self._shape.kv_heads), blocks, self._writer.axis(-1)]

        return graph.node("Concat", parts, "view.shape", attributes={"axis": 0})

    def _attend_decoding(self, part: GraphPart, name: str, query: str, keys: str, values: str) -> None:
        """All sequences in one product, over as many blocks as the longest has."""
        shape, head = self._shape, self._shape.head_size
        table = self._decode
        grouped = part.small_constant(f"{name}.q.shape", np.asarray([-1, shape.kv_heads, self._groups, head], np.int64))
        lengths = part.small_constant(f"{name}.kv.shape", np.asarray([shape.kv_heads, 0, -1, head], np.int64))
        swap = {"perm": [1, 0, 2, 3]}

        split = part.node("Reshape", [query, grouped], f"{name}.q.split")
        by_head = part.node("Transpose", [split], f"{name}.q", attributes=swap)
        gathered = [
            part.node(
                "Reshape",
                [part.node("Gather", [pool, table.columns], f"{name}.{kind}.blocks", attributes={"axis": 1}), lengths],
                f"{name}.{kind}",
            )
            for kind, pool in (("k", keys), ("v", values))
        ]
        attributes = {"transB": 1, "alpha": head**-0.5}
        scores = part.node(
            "FusedMatMul", [by_head, gathered[0]], f"{name}.scores", domain=CONTRIB, attributes=attributes
        )
        no_score = part.small_constant(f"{name}.no_score", np.asarray(_NO_SCORE, np.float32))
        masked = part.node("Where", [table.is_there, scores, no_score], f"{name}.masked")
        weights = part.node("Softmax", [masked], f"{name}.weights", attributes={"axis": -1})
        summed = part.node("MatMul", [weights, gathered[1]], f"{name}.summed")
        by_row = part.node("Transpose", [summed], f"{name}.by_row", attributes=swap)
        flat = part.small_constant(f"{name}.flat", np.asarray([1, -1, self._query_width], np.int64))
        part.node("Reshape", [by_row, flat], f"{name}.attended")
        part.output(f"{name}.attended", np.float32, [1, "rows", self._query_width])

    def _attend_prefilling(
        self, part: GraphPart, name: str, projections: tuple[str, str, str], keys: str, values: str
    ) -> None:
        """One sequence after the other; their rows are put behind each other again."""
        body = PrefillBody(self._shape, self._step, self._pool, name)
        body.write(projections, (keys, values))
        count = part.node("Size", [self._step.ends], f"{name}.count")
        go_on = part.small_constant(f"{name}.go_on", np.ones((), np.bool_))
        empty = part.small_constant(f"{name}.empty", np.zeros((1, 0, self._query_width), np.float32))
        part.node("Loop", [count, go_on, empty], f"{name}.attended", bodies={"body": body.part})
        part.output(f"{name}.attended", np.float32, [1, "rows", self._query_width])


class _DecodeTable:
    """The block table that decoding gathers by, and which of the gathered keys are there. Shared by all layers.

    columns: int64 [B, C], C blocks as the longest sequence needs them; a column that a sequence does not use names its first block, since
    the engine's own filling (-1, or a block that is kept for later) would be another sequence's data. is_there: bool [B, 1, C * block].
    """

    def __init__(self, graph: Graph, writer: StepWriter, step: Step, pool: Pool) -> None:
        longest = graph.node("ReduceMax", [step.total], "decode.longest", attributes={"keepdims": 0})
        one = writer.number(1)
        rounded = graph.node("Add", [longest, pool.block_size], "decode.longest.up")
        count = graph.node(
            "Div", [graph.node("Sub", [rounded, one], "decode.rounded"), pool.block_size], "decode.count"
        )
        column = graph.node("Range", [writer.number(0), count, one], "decode.column")
        first_position = graph.node("Mul", [column, pool.block_size], "decode.first_position")
        total = graph.node("Unsqueeze", [step.total, writer.axis(1)], "decode.total")
        is_used = graph.node("Less", [first_position, total], "decode.is_used")
        end = graph.node("Unsqueeze", [count, writer.axis(0)], "decode.count.vector")
        cut = graph.node("Slice", [step.table, writer.axis(0), end, writer.axis(1)], "decode.cut")
        first_block = graph.node("Gather", [step.table, writer.axis(0)], "decode.first_block", attributes={"axis": 1})
        self.columns = graph.node("Where", [is_used, cut, first_block], "decode.columns")

        places = graph.node("Mul", [count, pool.block_size], "decode.places")
        position = graph.node("Range", [writer.number(0), places, one], "decode.position")
        is_there = graph.node("Less", [position, total], "decode.is_there.flat")
        self.is_there = graph.node("Unsqueeze", [is_there, writer.axis(1)], "decode.is_there")
