"""Attention over a cache that grows by concatenation, as og.Generator keeps it: GroupQueryAttention with the rotation inside.

An attention owns everything that depends on how the cache is laid out: the graph's inputs, the attention of a layer, which rows go to
the output head, and what genai_config.json says about them. Another layout of the cache is another class with these methods.
Called by `llama_graph.py`.
"""

from typing import Protocol

import numpy as np

from prism.export.graph import CONTRIB, Dimensions, Graph
from prism.export.llama import FloatArray, LlamaShape

PAST_KEY, PAST_VALUE = "past_key_values.%d.key", "past_key_values.%d.value"
PRESENT_KEY, PRESENT_VALUE = "present.%d.key", "present.%d.value"


class Attention(Protocol):
    """What the rest of the graph needs of an attention. scores: the name that the output head's product gets."""

    @property
    def scores(self) -> str: ...

    def token_ids(self) -> str:
        """Declare the inputs and return the name of the token ids."""

    def attend(self, layer: int, query_key_value: str) -> str:
        """Attend with the stacked projections of one layer; returns [.., heads * head_size]."""

    def rows_for_head(self, hidden: str) -> str:
        """Pick the rows whose logits are wanted."""

    def declare_logits(self) -> None:
        """Declare the output "logits" with its dimensions, made of `scores`."""

    def config_inputs(self) -> dict[str, str]:
        """The `inputs` part of genai_config.json."""


class GrowingCacheAttention:
    """One sequence (or several of one length) whose keys and values are [batch, kv_heads, past, head_size]."""

    scores = "logits"

    def __init__(self, graph: Graph, shape: LlamaShape) -> None:
        self._graph = graph
        self._shape = shape
        self._common: list[str] = []

    def token_ids(self) -> str:
        """Declare ids and mask, and derive once what every layer's attention reads."""
        graph, shape = self._graph, self._shape
        ids = graph.input("input_ids", np.int64, ["batch_size", "sequence_length"])
        mask = graph.input("attention_mask", np.int64, ["batch_size", "total_sequence_length"])
        one = graph.constant("one", np.asarray([1], np.int64))

        length = graph.node("ReduceSum", [mask, one], "mask.length", attributes={"keepdims": 0})
        last = graph.node("Sub", [length, one], "mask.last")
        last_32 = graph.cast(last, np.int32, "mask.last.int32")
        total = graph.node("Shape", [mask], "mask.total", attributes={"start": 1, "end": 2})
        scalar = graph.node("Squeeze", [total], "mask.total.scalar")
        total_32 = graph.cast(scalar, np.int32, "mask.total.int32")
        cosine, sine = rotary_tables(shape)
        self._common = [last_32, total_32, graph.constant("rotary.cos", cosine), graph.constant("rotary.sin", sine)]

        return ids

    def attend(self, layer: int, query_key_value: str) -> str:
        """One node: rotate, append to the cache, attend."""
        graph, shape = self._graph, self._shape
        past: Dimensions = ["batch_size", shape.kv_heads, "past_sequence_length", shape.head_size]
        present: Dimensions = ["batch_size", shape.kv_heads, "total_sequence_length", shape.head_size]
        past_names = [graph.input(name % layer, np.float32, past) for name in (PAST_KEY, PAST_VALUE)]
        present_names = [graph.output(name % layer, np.float32, present) for name in (PRESENT_KEY, PRESENT_VALUE)]

        return graph.node(
            "GroupQueryAttention",
            [query_key_value, "", "", *past_names, *self._common],
            [f"layer.{layer}.attention", *present_names],
            domain=CONTRIB,
            attributes={
                "num_heads": shape.heads,
                "kv_num_heads": shape.kv_heads,
                "scale": shape.head_size**-0.5,
                "do_rotary": 1,
                "rotary_interleaved": 0,
            },
        )

    def rows_for_head(self, hidden: str) -> str:
        """The last position only: no caller reads the others, and the head is a fifth of the work of a prompt."""
        last = self._graph.constant("last", np.asarray([-1], np.int64))

        return self._graph.node("Gather", [hidden, last], "head.rows", attributes={"axis": 1})

    def declare_logits(self) -> None:
        """One row a sequence."""
        self._graph.output("logits", np.float32, ["batch_size", 1, self._shape.vocabulary])

    def config_inputs(self) -> dict[str, str]:
        """The names under which the engine feeds this graph."""
        return {
            "input_ids": "input_ids",
            "attention_mask": "attention_mask",
            "past_key_names": PAST_KEY,
            "past_value_names": PAST_VALUE,
        }


def rotary_tables(shape: LlamaShape) -> tuple[FloatArray, FloatArray]:
    """Cosines and sines, float32 [context_length, head_size / 2] each, computed in float64."""
    frequencies = shape.rope_base ** (-np.arange(0, shape.head_size, 2, dtype=np.float64) / shape.head_size)
    angles = np.outer(np.arange(shape.context_length, dtype=np.float64), frequencies)

    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
