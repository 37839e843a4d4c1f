"""The Llama graph: norms, projections and the feed-forward part, around an attention that somebody else lays out.

The operators are those that the GenAI model builder emits for a Llama on the CPU.
Called by `folder.py`; holds one layer's weights at a time.
"""

from prism.export.attention import Attention
from prism.export.blocks import stack_rows
from prism.export.graph import CONTRIB, Graph
from prism.export.layout import Layout
from prism.export.llama import FloatArray, LayerWeights, LlamaWeights
from prism.export.matrices import MatrixWriter
from prism.export.progress import Progress


def write_llama(graph: Graph, weights: LlamaWeights, attention: Attention, layout: Layout, progress: Progress) -> None:
    """Fill `graph` with the whole model. progress("convert", done, total) counts the layers, and the embedding as one more."""
    shape = weights.shape
    matrices = MatrixWriter(graph, layout)
    embedding = matrices.tied(weights.embedding())
    steps = shape.layers + 1
    progress("convert", 1, steps)

    block = _LayerWriter(graph, matrices, attention, shape.norm_epsilon)
    change, residual = embedding.look_up(attention.token_ids()), ""

    for number in range(shape.layers):
        change, residual = block.write(number, weights.layer(number), change, residual)
        progress("convert", number + 2, steps)

    normed, _ = block.norm("final", weights.final_norm(), change, residual)
    embedding.logits(attention.rows_for_head(normed), attention.scores)
    attention.declare_logits()


class _LayerWriter:
    """Writes one layer after the other."""

    def __init__(self, graph: Graph, matrices: MatrixWriter, attention: Attention, norm_epsilon: float) -> None:
        self._graph = graph
        self._matrices = matrices
        self._attention = attention
        self._norm_epsilon = norm_epsilon

    def write(self, number: int, layer: LayerWeights, change: str, residual: str) -> tuple[str, str]:
        """Write layer `number`. Takes and returns the last part's output, not yet added, and the residual stream before it."""
        name = f"layer.{number}"
        matrices = self._matrices

        normed, residual = self.norm(f"{name}.attention_norm", layer.attention_norm, change, residual)
        stacked = stack_rows([layer.query, layer.key, layer.value])
        attended = self._attention.attend(number, matrices.product(f"{name}.qkv", normed, stacked))
        change = matrices.product(f"{name}.attention_output", attended, layer.attention_output)

        normed, residual = self.norm(f"{name}.feed_forward_norm", layer.feed_forward_norm, change, residual)
        gate = matrices.product(f"{name}.gate", normed, layer.gate)
        up = matrices.product(f"{name}.up", normed, layer.up)
        gated = self._graph.node("Mul", [self._silu(gate), up], f"{name}.gated")

        return matrices.product(f"{name}.down", gated, layer.down), residual

    def norm(self, name: str, weight: FloatArray, change: str, residual: str) -> tuple[str, str]:
        """Add `change` to the residual stream and normalise; returns the normed vectors and the new stream.

        An empty `residual` means that `change` is the stream itself, as it is before the first layer.
        """
        weight_name = self._graph.constant(f"{name}.weight", weight)
        epsilon = {"epsilon": self._norm_epsilon}

        if not residual:
            attributes = epsilon | {"axis": -1, "stash_type": 1}
            return self._graph.node(
                "SimplifiedLayerNormalization", [change, weight_name], name, attributes=attributes
            ), change

        summed = f"{name}.stream"
        inputs = [change, residual, weight_name]
        self._graph.node(
            "SkipSimplifiedLayerNormalization", inputs, [name, "", "", summed], domain=CONTRIB, attributes=epsilon
        )

        return name, summed

    def _silu(self, gate: str) -> str:
        """x * sigmoid(x), which QuickGelu is when its alpha is 1."""
        return self._graph.node("QuickGelu", [gate], f"{gate}.silu", domain=CONTRIB, attributes={"alpha": 1.0})
