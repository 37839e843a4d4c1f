"""The Llama forward pass written out in numpy, in float64, from plain weight matrices: what the exported graphs are compared with.

Shares no code with the writer. GGUF weights keep their own row order here: a rotary pair is two neighbouring rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import gguf
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Reference:
    """weight(name): the matrix or vector with the GGUF name `name`, float64. has_neighbour_pairs: how rotary pairs lie."""

    weight: Callable[[str], Array]
    layers: int
    heads: int
    kv_heads: int
    rope_base: float
    epsilon: float
    has_neighbour_pairs: bool

    def last_logits(self, ids: Sequence[int]) -> Array:
        """The logits after the last of `ids`."""
        hidden = self.weight("token_embd.weight")[np.asarray(ids)]

        for number in range(self.layers):
            hidden = self._layer(f"blk.{number}.", hidden)

        logits: Array = self._norm(hidden[-1:], "output_norm.weight")[0] @ self.weight("token_embd.weight").T

        return logits

    def _layer(self, prefix: str, hidden: Array) -> Array:
        normed = self._norm(hidden, prefix + "attn_norm.weight")
        query = self._rotate(self._heads(normed, prefix + "attn_q.weight", self.heads))
        key = self._rotate(self._heads(normed, prefix + "attn_k.weight", self.kv_heads))
        value = self._heads(normed, prefix + "attn_v.weight", self.kv_heads)
        attended = self._attend(query, key, value)
        hidden = hidden + attended @ self.weight(prefix + "attn_output.weight").T

        normed = self._norm(hidden, prefix + "ffn_norm.weight")
        gate = normed @ self.weight(prefix + "ffn_gate.weight").T
        gated = gate / (1 + np.exp(-gate)) * (normed @ self.weight(prefix + "ffn_up.weight").T)

        result: Array = hidden + gated @ self.weight(prefix + "ffn_down.weight").T

        return result

    def _norm(self, vectors: Array, name: str) -> Array:
        mean_square = np.mean(vectors**2, axis=-1, keepdims=True)

        normed: Array = vectors / np.sqrt(mean_square + self.epsilon) * self.weight(name)

        return normed

    def _heads(self, vectors: Array, name: str, heads: int) -> Array:
        return (vectors @ self.weight(name).T).reshape(len(vectors), heads, -1)

    def _rotate(self, vectors: Array) -> Array:
        length, _, size = vectors.shape
        angles = np.outer(np.arange(length), self.rope_base ** (-np.arange(0, size, 2) / size))[:, None, :]
        first = slice(0, size, 2) if self.has_neighbour_pairs else slice(0, size // 2)
        second = slice(1, size, 2) if self.has_neighbour_pairs else slice(size // 2, size)
        a, b = vectors[..., first], vectors[..., second]
        rotated = np.empty_like(vectors)
        rotated[..., first] = a * np.cos(angles) - b * np.sin(angles)
        rotated[..., second] = a * np.sin(angles) + b * np.cos(angles)

        return rotated

    def _attend(self, query: Array, key: Array, value: Array) -> Array:
        length, heads, size = query.shape
        group = heads // self.kv_heads
        key, value = np.repeat(key, group, axis=1), np.repeat(value, group, axis=1)
        scores = np.einsum("qhd,khd->hqk", query, key) / np.sqrt(size)
        scores[:, np.triu(np.ones((length, length), bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)

        attended: Array = np.einsum("hqk,khd->qhd", weights, value).reshape(length, heads * size)

        return attended


def reference_of_gguf(path: Path) -> Reference:
    """Read every weight of a GGUF Llama with the `gguf` library's own dequantisation."""
    reader = gguf.GGUFReader(path)
    tensors = {tensor.name: tensor for tensor in reader.tensors}

    def weight(name: str) -> Array:
        tensor = tensors[name]

        return np.asarray(gguf.dequantize(tensor.data, tensor.tensor_type), np.float64)

    def number(name: str) -> float:
        return float(reader.fields[name].contents())

    return Reference(
        weight=weight,
        layers=int(number("llama.block_count")),
        heads=int(number("llama.attention.head_count")),
        kv_heads=int(number("llama.attention.head_count_kv")),
        rope_base=number("llama.rope.freq_base"),
        epsilon=number("llama.attention.layer_norm_rms_epsilon"),
        has_neighbour_pairs=True,
    )


def relative_error(logits: npt.ArrayLike, expected: Array) -> float:
    """Root mean square of the difference over that of the expected logits, both without their means (softmax ignores a shift)."""
    got = np.asarray(logits, np.float64)
    difference = (got - got.mean()) - (expected - expected.mean())

    return float(np.linalg.norm(difference) / np.linalg.norm(expected - expected.mean()))
