"""The exported graphs against a forward pass in numpy.

Bounds: float32 and the 4-bit layout compute in float32 with the very weights of the reference, so only rounding is left (measured: up to
2e-6). The 8-bit layout rounds the activations of every product to 8 bits, which random weights amplify (measured: 2 to 5 %).
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prism.export.blocks import dequantized, to_affine_blocks, to_centred_blocks
from prism.export.convert import convert_gguf
from prism.export.layout import Precision
from prism.export.llama import Matrix
from prism.export.quantize import pack_8bit
from prism.export.tiny_model import RandomWeights, write_tiny_model
from prism.export.tiny_tokenizer import tiny_tokenizer
from tests.export.engine_helpers import Engine
from tests.export.llama_reference import Array, Reference, reference_of_gguf, relative_error
from tests.export.tiny_gguf import write_tiny_gguf

pytestmark = pytest.mark.engine

PROMPT = "<|im_start|>user\nWhat is 2 + 2, and why is the sky blue?<|im_end|>\n<|im_start|>assistant\n"
BOUNDS = {Precision.FP32: 1e-5, Precision.INT4: 1e-5, Precision.INT8: 0.1, Precision.INT8_FINE: 3e-4}
# Against the source: an offset that is no whole number of steps is rounded to a thirty-fourth of one at worst.
OF_SOURCE = BOUNDS | {Precision.INT8_FINE: 2e-2}


def reference_of_tiny(precision: Precision) -> Reference:
    """The tiny model's weights as that precision stores them."""
    weights = RandomWeights(0, vocabulary=len(tiny_tokenizer().tokens), context_length=2048)

    def stored(matrix: Matrix) -> Array:
        match precision:
            case Precision.FP32:
                return dequantized(matrix).astype(np.float64)
            case Precision.INT8 | Precision.INT8_FINE:
                return pack_8bit(to_affine_blocks(dequantized(matrix), bits=8)).dequantize().astype(np.float64)
            case Precision.INT4:
                return to_affine_blocks(dequantized(matrix), bits=4).dequantize().astype(np.float64)

    embedding = weights.embedding()
    is_split = precision is Precision.INT4
    tensors = {"output_norm.weight": weights.final_norm().astype(np.float64)}
    tensors["token_embd.weight"] = (
        to_centred_blocks(embedding).dequantize().astype(np.float64) if is_split else stored(embedding)
    )

    for number in range(weights.shape.layers):
        layer, prefix = weights.layer(number), f"blk.{number}."
        tensors[prefix + "attn_norm.weight"] = layer.attention_norm.astype(np.float64)
        tensors[prefix + "ffn_norm.weight"] = layer.feed_forward_norm.astype(np.float64)
        tensors[prefix + "attn_q.weight"] = stored(layer.query)
        tensors[prefix + "attn_k.weight"] = stored(layer.key)
        tensors[prefix + "attn_v.weight"] = stored(layer.value)
        tensors[prefix + "attn_output.weight"] = stored(layer.attention_output)
        tensors[prefix + "ffn_gate.weight"] = stored(layer.gate)
        tensors[prefix + "ffn_up.weight"] = stored(layer.up)
        tensors[prefix + "ffn_down.weight"] = stored(layer.down)

    shape = weights.shape

    return Reference(
        weight=tensors.__getitem__,
        layers=shape.layers,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        rope_base=shape.rope_base,
        epsilon=shape.norm_epsilon,
        has_neighbour_pairs=False,
    )


def convert_tiny(folder: Path, precision: Precision) -> Path:
    """A tiny GGUF, and its conversion in `folder`; returns the GGUF."""
    source = folder.with_suffix(".gguf")
    write_tiny_gguf(source)
    folder.mkdir()
    convert_gguf(source, folder, layout=precision.layout, progress=lambda *_: None)

    return source


@pytest.mark.parametrize("precision", list(Precision))
def test_tiny_model_computes_what_its_weights_say(tmp_path: Path, precision: Precision) -> None:
    write_tiny_model(tmp_path / "tiny", precision=precision)
    engine = Engine(tmp_path / "tiny")
    ids = engine.encode(PROMPT)

    error = relative_error(engine.last_logits(ids), reference_of_tiny(precision).last_logits(ids))

    assert error < BOUNDS[precision]


@pytest.mark.parametrize("precision", list(Precision))
def test_converted_gguf_computes_what_its_weights_say(tmp_path: Path, precision: Precision) -> None:
    source = convert_tiny(tmp_path / "converted", precision)
    engine = Engine(tmp_path / "converted")
    ids = engine.encode(PROMPT)

    error = relative_error(engine.last_logits(ids), reference_of_gguf(source).last_logits(ids))

    assert error < OF_SOURCE[precision]


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.INT4])
@pytest.mark.parametrize("slice_length", [1, 7, 64])
def test_slicing_the_prompt_does_not_change_the_logits(tmp_path: Path, precision: Precision, slice_length: int) -> None:
    write_tiny_model(tmp_path / "tiny", precision=precision)
    engine = Engine(tmp_path / "tiny")
    ids = engine.encode(PROMPT)

    sliced, whole = engine.last_logits(ids, slice_length=slice_length), engine.last_logits(ids)

    assert relative_error(sliced, whole.astype(np.float64)) < 1e-5


def test_the_reference_notices_a_wrong_rotary_order(tmp_path: Path) -> None:
    source = convert_tiny(tmp_path / "converted", Precision.FP32)
    engine = Engine(tmp_path / "converted")
    ids = engine.encode(PROMPT)
    right = reference_of_gguf(source)
    wrong = replace(right, has_neighbour_pairs=False)

    assert relative_error(engine.last_logits(ids), wrong.last_logits(ids)) > 0.01


def test_conversion_tells_its_progress_layer_by_layer(tmp_path: Path) -> None:
    write_tiny_gguf(tmp_path / "tiny.gguf")
    (tmp_path / "converted").mkdir()
    told: list[tuple[str, int, int | None]] = []

    def record(step: str, done: int, total: int | None) -> None:
        told.append((step, done, total))

    convert_gguf(tmp_path / "tiny.gguf", tmp_path / "converted", progress=record)

    assert told == [("convert", 1, 3), ("convert", 2, 3), ("convert", 3, 3)]
