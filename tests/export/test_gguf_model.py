from pathlib import Path
from typing import TypeAlias

import gguf
import numpy as np
import pytest

from prism.export.blocks import AffineBlocks, dequantized
from prism.export.errors import BadSource, ExportError, UnsupportedModel
from prism.export.gguf_model import GgufModel
from prism.export.llama import FloatArray
from prism.export.tiny_tokenizer import tiny_tokenizer
from tests.export.tiny_gguf import HEAD_SIZE, HIDDEN, write_tiny_gguf

Kind: TypeAlias = gguf.GGMLQuantizationType


def stored(path: Path, name: str) -> FloatArray:
    """A tensor as the `gguf` library itself decodes it."""
    tensor = next(tensor for tensor in gguf.GGUFReader(path).tensors if tensor.name == name)

    return np.asarray(gguf.dequantize(tensor.data, tensor.tensor_type), np.float32)


@pytest.mark.parametrize("kind", [Kind.Q4_1, Kind.Q8_0, Kind.Q5_0, Kind.F32])
def test_matrices_of_every_type_hold_the_weights_that_the_library_reads(tmp_path: Path, kind: Kind) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny_gguf(path, layer_type=kind)

    matrix = GgufModel(path).layer(1).down

    assert isinstance(matrix, AffineBlocks) == (kind in (Kind.Q4_1, Kind.Q8_0))
    assert np.abs(dequantized(matrix) - stored(path, "blk.1.ffn_down.weight")).max() < 1e-6


def test_rotary_pairs_are_moved_from_neighbours_to_halves(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny_gguf(path)

    query = dequantized(GgufModel(path).layer(0).query).reshape(-1, HEAD_SIZE, HIDDEN)
    pairs = stored(path, "blk.0.attn_q.weight").reshape(-1, HEAD_SIZE // 2, 2, HIDDEN)

    assert np.allclose(query[:, : HEAD_SIZE // 2], pairs[:, :, 0], atol=1e-6)
    assert np.allclose(query[:, HEAD_SIZE // 2 :], pairs[:, :, 1], atol=1e-6)


def test_shape_and_tokenizer_come_from_the_metadata(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny_gguf(path)

    model = GgufModel(path)

    assert (model.shape.layers, model.shape.heads, model.shape.kv_heads) == (2, 4, 2)
    assert model.shape.context_length == 512
    assert model.tokenizer() == tiny_tokenizer()


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny_gguf(path, leave_out="blk.1.ffn_up.weight")

    with pytest.raises(BadSource, match=r"no tensor 'blk\.1\.ffn_up\.weight'"):
        GgufModel(path).layer(1)


@pytest.mark.parametrize("name", ["output.weight", "blk.0.attn_q.bias", "rope_freqs.weight"])
def test_a_tensor_that_the_graph_has_no_place_for_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny_gguf(path, extra={name: np.ones((HIDDEN,), np.float32)})

    with pytest.raises(UnsupportedModel, match=name):
        GgufModel(path)


def test_a_tensor_of_another_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny_gguf(path, extra={"blk.0.attn_k.weight": np.ones((3, HIDDEN), np.float32)})

    with pytest.raises(BadSource, match=r"blk\.0\.attn_k\.weight.*\[64, 3\], not \[64, 32\]"):
        GgufModel(path).layer(0)


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny_gguf(path, architecture="gemma")

    with pytest.raises(UnsupportedModel, match="'gemma'"):
        GgufModel(path)


def test_another_tokenizer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny_gguf(path, tokenizer_style="llama-bpe")

    with pytest.raises(UnsupportedModel, match="'llama-bpe'"):
        GgufModel(path).tokenizer()


@pytest.mark.parametrize("keep", [0, 3, 20, 500, 4000, 30_000])
def test_a_truncated_file_is_told_as_a_bad_source(tmp_path: Path, keep: int) -> None:
    whole, cut = tmp_path / "whole.gguf", tmp_path / "cut.gguf"
    write_tiny_gguf(whole)
    cut.write_bytes(whole.read_bytes()[:keep])

    with pytest.raises(ExportError):
        GgufModel(cut)


def test_a_missing_file_is_told_as_a_bad_source(tmp_path: Path) -> None:
    with pytest.raises(BadSource, match=r"absent\.gguf"):
        GgufModel(tmp_path / "absent.gguf")
