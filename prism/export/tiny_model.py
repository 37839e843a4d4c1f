"""A Llama of two layers with random weights, for tests: a real model in every respect except that it has nothing to say.

Made by the same writer as the demo model, in any precision, without a download, in a fraction of a second and under 3 MB.
"""

from pathlib import Path

import numpy as np

from prism.export.folder import write_model_folder
from prism.export.genai_config import DynamicBatching, SearchDefaults
from prism.export.layout import Precision
from prism.export.llama import FloatArray, LayerWeights, LlamaShape
from prism.export.tiny_tokenizer import CHATML_TEMPLATE, tiny_tokenizer


def write_tiny_model(
    folder: Path,
    *,
    seed: int = 0,
    precision: Precision = Precision.FP32,
    context_length: int = 2048,
    chat_template: str = CHATML_TEMPLATE,
    batching: DynamicBatching | None = None,
) -> None:
    """Write the model into `folder`, which is made if it is missing. The same arguments give the same files.

    Raises FileExistsError when the folder already holds a model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tiny_tokenizer(chat_template=chat_template)
    weights = RandomWeights(seed, vocabulary=len(tokenizer.tokens), context_length=context_length)
    write_model_folder(
        folder,
        weights,
        tokenizer,
        layout=precision.layout,
        search=SearchDefaults(),
        progress=lambda *_: None,
        batching=batching,
    )


class RandomWeights:
    """Implements `LlamaWeights` with normally distributed numbers; each tensor depends on the seed and its own place alone."""

    def __init__(self, seed: int, *, vocabulary: int, context_length: int) -> None:
        self._seed = seed
        self._shape = LlamaShape(
            layers=2,
            hidden=64,
            heads=4,
            kv_heads=2,
            head_size=16,
            feed_forward=128,
            vocabulary=vocabulary,
            context_length=context_length,
            rope_base=10_000.0,
            norm_epsilon=1e-5,
        )

    @property
    def shape(self) -> LlamaShape:
        """Small, but with several query heads for each key, as grown models have."""
        return self._shape

    def embedding(self) -> FloatArray:
        """Small against what the layers add, or else a tied head would only repeat the last token."""
        return self._normal(0, 0, (self._shape.vocabulary, self._shape.hidden), deviation=0.2)

    def final_norm(self) -> FloatArray:
        """Around 1, as a trained norm is."""
        return 1 + self._normal(0, 1, (self._shape.hidden,), deviation=0.1)

    def layer(self, number: int) -> LayerWeights:
        """The weights of one layer."""
        shape = self._shape
        place = number + 1
        queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size

        return LayerWeights(
            attention_norm=1 + self._normal(place, 0, (shape.hidden,), deviation=0.1),
            query=self._matrix(place, 1, queries, shape.hidden),
            key=self._matrix(place, 2, keys, shape.hidden),
            value=self._matrix(place, 3, keys, shape.hidden),
            attention_output=self._matrix(place, 4, shape.hidden, queries),
            feed_forward_norm=1 + self._normal(place, 5, (shape.hidden,), deviation=0.1),
            gate=self._matrix(place, 6, shape.feed_forward, shape.hidden),
            up=self._matrix(place, 7, shape.feed_forward, shape.hidden),
            down=self._matrix(place, 8, shape.hidden, shape.feed_forward),
        )

    def _matrix(self, place: int, index: int, outputs: int, inputs: int) -> FloatArray:
        return self._normal(place, index, (outputs, inputs), deviation=1.5 / inputs**0.5)

    def _normal(self, place: int, index: int, size: tuple[int, ...], *, deviation: float) -> FloatArray:
        generator = np.random.default_rng((self._seed, place, index))

        return (generator.standard_normal(size) * deviation).astype(np.float32)
