"""Reads a Llama model out of a GGUF file: shape, weights, tokenizer. The home of the `gguf` library.

The file is mapped, and a tensor is decoded when it is asked for. Called by `convert.py`; blocks on the disk.
"""

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

from prism.export.blocks import AffineBlocks
from prism.export.errors import BadSource, UnsupportedModel
from prism.export.llama import FloatArray, LayerWeights, LlamaShape, Matrix
from prism.export.tokenizer_files import TokenizerSpec

# GGUF's code for tokens that control the conversation and never appear as text (llama.cpp, llama_token_type).
_CONTROL_TOKEN = 3
_USER_TOKEN = 4
_LAYER_PARTS = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")


class GgufModel:
    """An open GGUF file that holds a Llama. Implements `LlamaWeights`."""

    def __init__(self, path: Path) -> None:
        """Raises BadSource when the file is no GGUF, UnsupportedModel when it is not a Llama with tied embeddings."""
        try:
            self._reader = gguf.GGUFReader(path)
        except (OSError, ValueError, IndexError, KeyError) as error:
            raise BadSource(f"{path.name} cannot be read as GGUF: {error}") from error

        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        self._shape = self._read_shape()
        self._refuse_other_tensors()

    @property
    def shape(self) -> LlamaShape:
        """The numbers of the graph, from the metadata."""
        return self._shape

    def embedding(self) -> Matrix:
        """[vocabulary, hidden]."""
        return self._matrix("token_embd.weight", self._shape.vocabulary, self._shape.hidden)

    def final_norm(self) -> FloatArray:
        """[hidden]."""
        return self._vector("output_norm.weight")

    def layer(self, number: int) -> LayerWeights:
        """Decode one layer."""
        shape, prefix = self._shape, f"blk.{number}."
        hidden, feed_forward = shape.hidden, shape.feed_forward
        keys = shape.kv_heads * shape.head_size

        return LayerWeights(
            attention_norm=self._vector(prefix + "attn_norm.weight"),
            query=self._rotary_matrix(prefix + "attn_q.weight", hidden, hidden),
            key=self._rotary_matrix(prefix + "attn_k.weight", keys, hidden),
            value=self._matrix(prefix + "attn_v.weight", keys, hidden),
            attention_output=self._matrix(prefix + "attn_output.weight", hidden, hidden),
            feed_forward_norm=self._vector(prefix + "ffn_norm.weight"),
            gate=self._matrix(prefix + "ffn_gate.weight", feed_forward, hidden),
            up=self._matrix(prefix + "ffn_up.weight", feed_forward, hidden),
            down=self._matrix(prefix + "ffn_down.weight", hidden, feed_forward),
        )

    def tokenizer(self) -> TokenizerSpec:
        """The byte-level BPE tokenizer and the chat template. Raises UnsupportedModel for any other kind."""
        kind, style = self._text("tokenizer.ggml.model"), self._text("tokenizer.ggml.pre")

        if (kind, style) != ("gpt2", "smollm"):
            raise UnsupportedModel(f"tokenizer.ggml.model {kind!r} with tokenizer.ggml.pre {style!r} is not known")

        tokens = self._texts("tokenizer.ggml.tokens")
        kinds = self._field("tokenizer.ggml.token_type")

        if not isinstance(kinds, list) or len(kinds) != len(tokens):
            raise BadSource("tokenizer.ggml.token_type does not fit tokenizer.ggml.tokens")

        return TokenizerSpec(
            tokens=tuple(tokens),
            merges=tuple(self._texts("tokenizer.ggml.merges")),
            control_ids=tuple(index for index, kind in enumerate(kinds) if kind == _CONTROL_TOKEN),
            added_ids=tuple(index for index, kind in enumerate(kinds) if kind == _USER_TOKEN),
            bos_id=self._whole("tokenizer.ggml.bos_token_id"),
            eos_id=self._whole("tokenizer.ggml.eos_token_id"),
            pad_id=self._whole("tokenizer.ggml.padding_token_id"),
            unknown_id=self._whole("tokenizer.ggml.unknown_token_id"),
            chat_template=self._text("tokenizer.chat_template"),
        )

    def _read_shape(self) -> LlamaShape:
        architecture = self._text("general.architecture")

        if architecture != "llama":
            raise UnsupportedModel(f"general.architecture {architecture!r} is not 'llama'")

        hidden, heads = self._whole("llama.embedding_length"), self._whole("llama.attention.head_count")

        if heads < 1 or hidden % heads or hidden // heads != self._whole("llama.rope.dimension_count"):
            raise UnsupportedModel(
                f"{heads} heads over {hidden} dimensions do not agree with llama.rope.dimension_count"
            )

        return LlamaShape(
            layers=self._whole("llama.block_count"),
            hidden=hidden,
            heads=heads,
            kv_heads=self._whole("llama.attention.head_count_kv"),
            head_size=hidden // heads,
            feed_forward=self._whole("llama.feed_forward_length"),
            vocabulary=len(self._texts("tokenizer.ggml.tokens")),
            context_length=self._whole("llama.context_length"),
            rope_base=self._number("llama.rope.freq_base"),
            norm_epsilon=self._number("llama.attention.layer_norm_rms_epsilon"),
        )

    def _refuse_other_tensors(self) -> None:
        """A tensor that the graph has no place for (a bias, an output head of its own) would be left out silently."""
        known = {"token_embd.weight", "output_norm.weight"}
        known |= {f"blk.{number}.{part}.weight" for number in range(self._shape.layers) for part in _LAYER_PARTS}

        for name in self._tensors:
            if name not in known:
                raise UnsupportedModel(f"the tensor {name!r} has no place in the graph of a Llama with tied embeddings")

    def _matrix(self, name: str, rows: int, columns: int) -> Matrix:
        tensor = self._tensor(name, (columns, rows))

        match tensor.tensor_type:
            case gguf.GGMLQuantizationType.Q4_1:
                return _blocks_of_q4_1(tensor.data)
            case gguf.GGMLQuantizationType.Q8_0:
                return _blocks_of_q8_0(tensor.data)
            case _:
                return _dequantized(tensor)

    def _rotary_matrix(self, name: str, rows: int, columns: int) -> Matrix:
        """A query or key matrix with its rows put back into half-split order; GGUF keeps a pair's rows side by side."""
        matrix, size = self._matrix(name, rows, columns), self._shape.head_size
        order = np.arange(rows).reshape(rows // size, size // 2, 2).swapaxes(1, 2).reshape(rows)

        return matrix.take_rows(order) if isinstance(matrix, AffineBlocks) else matrix[order]

    def _vector(self, name: str) -> FloatArray:
        return _dequantized(self._tensor(name, (self._shape.hidden,)))

    def _tensor(self, name: str, dimensions: tuple[int, ...]) -> gguf.ReaderTensor:
        """The tensor, whose dimensions GGUF counts from the innermost."""
        tensor = self._tensors.get(name)

        if tensor is None:
            raise BadSource(f"the GGUF file has no tensor {name!r}")

        if tuple(tensor.shape) != dimensions:
            raise BadSource(f"the tensor {name!r} is {[int(n) for n in tensor.shape]}, not {list(dimensions)}")

        return tensor

    def _field(self, name: str) -> object:
        field = self._reader.fields.get(name)

        if field is None:
            raise BadSource(f"the GGUF file has no field {name!r}")

        value: object = field.contents()

        return value

    def _text(self, name: str) -> str:
        value = self._field(name)

        if not isinstance(value, str):
            raise BadSource(f"the GGUF field {name!r} is not a text")

        return value

    def _texts(self, name: str) -> list[str]:
        value = self._field(name)

        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise BadSource(f"the GGUF field {name!r} is not a list of texts")

        return value

    def _number(self, name: str) -> float:
        value = self._field(name)

        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadSource(f"the GGUF field {name!r} is not a number")

        return float(value)

    def _whole(self, name: str) -> int:
        value = self._number(name)

        if not value.is_integer() or value < 0:
            raise BadSource(f"the GGUF field {name!r} is {value}, not a whole number from 0")

        return int(value)


def _dequantized(tensor: gguf.ReaderTensor) -> FloatArray:
    try:
        return np.asarray(gguf.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
    except NotImplementedError as error:
        raise UnsupportedModel(f"the tensor {tensor.name!r} has the type {tensor.tensor_type.name}") from error


def _blocks_of_q4_1(stored: npt.NDArray[np.uint8]) -> AffineBlocks:
    """Q4_1: 20 bytes a block: step and offset as float16, then 16 bytes whose low halves are weights 0-15 and high halves 16-31."""
    raw = np.ascontiguousarray(stored).reshape(stored.shape[0], -1, 20)
    numbers = np.ascontiguousarray(raw[:, :, :4]).view(np.float16).astype(np.float32)
    nibbles = raw[:, :, 4:]
    levels = np.concatenate([nibbles & 15, nibbles >> 4], axis=2)

    return AffineBlocks(levels, numbers[:, :, 0], numbers[:, :, 1])


def _blocks_of_q8_0(stored: npt.NDArray[np.uint8]) -> AffineBlocks:
    """Q8_0: 34 bytes a block: step as float16, then 32 signed levels around zero."""
    raw = np.ascontiguousarray(stored).reshape(stored.shape[0], -1, 34)
    step = np.ascontiguousarray(raw[:, :, :2]).view(np.float16).astype(np.float32)[:, :, 0]
    levels = raw[:, :, 2:] ^ np.uint8(128)

    return AffineBlocks(levels, step, step * np.float32(-128))
