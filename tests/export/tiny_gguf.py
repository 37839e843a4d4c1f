"""Writes small GGUF files of the demo model's kind: a Llama with tied embeddings, a byte-level BPE, Q4_1 layers, a Q8_0 embedding."""

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

from prism.export.tiny_tokenizer import tiny_tokenizer

LAYERS, HIDDEN, HEADS, KV_HEADS, FEED_FORWARD = 2, 64, 4, 2, 96
HEAD_SIZE = HIDDEN // HEADS
Q4_1, Q8_0 = gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.Q8_0


def write_tiny_gguf(
    path: Path,
    *,
    seed: int = 0,
    layer_type: gguf.GGMLQuantizationType = Q4_1,
    embedding_type: gguf.GGMLQuantizationType = Q8_0,
    architecture: str = "llama",
    tokenizer_style: str = "smollm",
    leave_out: str = "",
    extra: Mapping[str, npt.NDArray[np.float32]] | None = None,
) -> None:
    """Write the file. leave_out: a tensor that is missing; extra: tensors that do not belong there, or replace one."""
    spec = tiny_tokenizer()
    tensors = {"token_embd.weight": (embedding_type, _random(seed, 0, len(spec.tokens), HIDDEN) * np.float32(0.2))}
    tensors["output_norm.weight"] = (gguf.GGMLQuantizationType.F32, 1 + _random(seed, 1, HIDDEN) / 10)

    for number in range(LAYERS):
        for index, (name, shape) in enumerate(_layer_shapes().items()):
            values = _random(seed, 100 * (number + 1) + index, *shape)
            is_norm = len(shape) == 1
            kind = gguf.GGMLQuantizationType.F32 if is_norm else layer_type
            scaled = 1 + values / 10 if is_norm else values * np.float32(1.5 / shape[1] ** 0.5)
            tensors[f"blk.{number}.{name}.weight"] = (kind, scaled.astype(np.float32))

    tensors |= {name: (gguf.GGMLQuantizationType.F32, values) for name, values in (extra or {}).items()}
    tensors.pop(leave_out, None)
    _write(path, architecture, tokenizer_style, tensors)


def _layer_shapes() -> dict[str, tuple[int, ...]]:
    keys = KV_HEADS * HEAD_SIZE

    return {
        "attn_norm": (HIDDEN,),
        "attn_q": (HIDDEN, HIDDEN),
        "attn_k": (keys, HIDDEN),
        "attn_v": (keys, HIDDEN),
        "attn_output": (HIDDEN, HIDDEN),
        "ffn_norm": (HIDDEN,),
        "ffn_gate": (FEED_FORWARD, HIDDEN),
        "ffn_up": (FEED_FORWARD, HIDDEN),
        "ffn_down": (HIDDEN, FEED_FORWARD),
    }


def _random(seed: int, place: int, *shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng((seed, place)).standard_normal(shape).astype(np.float32)


def _write(
    path: Path,
    architecture: str,
    tokenizer_style: str,
    tensors: Mapping[str, tuple[gguf.GGMLQuantizationType, npt.NDArray[np.float32]]],
) -> None:
    spec = tiny_tokenizer()
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_uint32("llama.context_length", 512)
    writer.add_uint32("llama.embedding_length", HIDDEN)
    writer.add_uint32("llama.block_count", LAYERS)
    writer.add_uint32("llama.feed_forward_length", FEED_FORWARD)
    writer.add_uint32("llama.attention.head_count", HEADS)
    writer.add_uint32("llama.attention.head_count_kv", KV_HEADS)
    writer.add_uint32("llama.rope.dimension_count", HEAD_SIZE)
    writer.add_float32("llama.rope.freq_base", 10_000.0)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(tokenizer_style)
    writer.add_token_list(list(spec.tokens))
    writer.add_token_merges(list(spec.merges))
    kinds = [3 if i in spec.control_ids else 4 if i in spec.added_ids else 1 for i in range(len(spec.tokens))]
    writer.add_token_types(kinds)
    writer.add_bos_token_id(spec.bos_id)
    writer.add_eos_token_id(spec.eos_id)
    writer.add_unk_token_id(spec.unknown_id)
    writer.add_pad_token_id(spec.pad_id)
    writer.add_chat_template(spec.chat_template)

    for name, (kind, values) in tensors.items():
        if kind is gguf.GGMLQuantizationType.F32:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
