"""The description of a Llama model that every writer of this package works from: its shape and its weights, independent of any file format.

Pure values. `gguf_model.py` and `tiny_model.py` make them, `llama_graph.py` turns them into a graph.
"""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from prism.export.blocks import AffineBlocks

FloatArray: TypeAlias = npt.NDArray[np.float32]
Matrix: TypeAlias = FloatArray | AffineBlocks


@dataclass(frozen=True, slots=True)
class LlamaShape:
    """The numbers that fix the graph. All counts are of this model, none is padded.

    rope_base: base of the rotary angles ("theta").
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    feed_forward: int
    vocabulary: int
    context_length: int
    rope_base: float
    norm_epsilon: float


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One transformer layer. Matrices are [outputs, inputs]; norms are [hidden].

    query and key have their rows in the half-split rotary order: a head's first half and second half are the pairs.
    """

    attention_norm: FloatArray
    query: Matrix
    key: Matrix
    value: Matrix
    attention_output: Matrix
    feed_forward_norm: FloatArray
    gate: Matrix
    up: Matrix
    down: Matrix


class LlamaWeights(Protocol):
    """Weights that are read when they are needed, so that a conversion holds one layer in memory and not the model."""

    @property
    def shape(self) -> LlamaShape:
        """The numbers that the matrices agree with."""

    def embedding(self) -> Matrix:
        """[vocabulary, hidden]; the output head is the same matrix (tied)."""

    def layer(self, number: int) -> LayerWeights:
        """The weights of layer `number`, from 0."""

    def final_norm(self) -> FloatArray:
        """[hidden]."""
