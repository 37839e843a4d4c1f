import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from prism.export.blocks import AffineBlocks, dequantized, stack_rows, to_affine_blocks, to_centred_blocks
from prism.export.llama import FloatArray

WEIGHTS = hnp.arrays(
    np.float32, st.tuples(st.integers(1, 3), st.just(64)), elements=st.floats(-8, 8, width=32, allow_subnormal=False)
)


@given(WEIGHTS, st.sampled_from([4, 8]))
def test_rounding_moves_no_weight_by_more_than_half_a_step(weights: FloatArray, bits: int) -> None:
    blocks = to_affine_blocks(weights, bits=bits)

    error = np.abs(blocks.dequantize() - weights).reshape(blocks.levels.shape)

    assert blocks.levels.max() < 2**bits
    assert (error <= blocks.step[:, :, None] * 0.5 + 1e-5).all()


@given(WEIGHTS)
def test_centred_rounding_keeps_zero_at_level_128(weights: FloatArray) -> None:
    blocks = to_centred_blocks(weights)

    error = np.abs(blocks.dequantize() - weights).reshape(blocks.levels.shape)

    assert np.array_equal(blocks.offset, blocks.step * np.float32(-128))
    assert (error <= blocks.step[:, :, None] * 0.5 + 1e-5).all()


@given(WEIGHTS)
def test_rows_can_be_reordered_and_stacked_without_loss(weights: FloatArray) -> None:
    blocks = to_affine_blocks(weights, bits=4)
    order = np.arange(len(weights))[::-1]

    stacked = stack_rows([blocks, blocks.take_rows(order)])

    assert isinstance(stacked, AffineBlocks)
    assert np.array_equal(stacked.dequantize(), np.concatenate([blocks.dequantize(), blocks.dequantize()[order]]))


def test_stacking_blocks_with_floats_gives_floats() -> None:
    weights = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)

    stacked = stack_rows([to_affine_blocks(weights, bits=8), weights])

    assert not isinstance(stacked, AffineBlocks)
    assert np.array_equal(stacked[1:], dequantized(weights))


@pytest.mark.parametrize("columns", [1, 31, 33])
def test_a_row_that_is_no_whole_number_of_blocks_is_refused(columns: int) -> None:
    with pytest.raises(ValueError, match=f"row of {columns} weights"):
        to_affine_blocks(np.zeros((1, columns), np.float32), bits=4)
