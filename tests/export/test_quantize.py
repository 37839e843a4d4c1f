import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.export.blocks import BLOCK, AffineBlocks, to_centred_blocks
from prism.export.quantize import pack_4bit, pack_8bit, split_8bit

SEEDS = st.integers(0, 2**32 - 1)


def nibble_blocks(seed: int, *, blocks: int = 3, zero: tuple[float, float] = (0, 15)) -> AffineBlocks:
    """Random blocks of 16 levels whose zero lies somewhere in `zero`, counted in steps."""
    random = np.random.default_rng(seed)
    levels = random.integers(0, 16, (4, blocks, BLOCK)).astype(np.uint8)
    step = random.uniform(0.001, 0.1, (4, blocks)).astype(np.float32)
    offset = (-step * random.uniform(*zero, (4, blocks))).astype(np.float32)

    return AffineBlocks(levels, step, offset)


@given(SEEDS)
def test_eight_bits_keep_sixteen_levels_within_a_thirty_fourth_of_a_step(seed: int) -> None:
    blocks = nibble_blocks(seed)

    error = np.abs(pack_8bit(blocks).dequantize() - blocks.dequantize()).reshape(blocks.levels.shape)

    assert (error <= blocks.step[:, :, None] * (0.5 / 17 + 1e-4)).all()


@given(SEEDS)
def test_eight_bits_keep_the_distances_between_levels_exactly(seed: int) -> None:
    blocks = nibble_blocks(seed)
    packed, source = pack_8bit(blocks).dequantize(), blocks.dequantize()

    shift = (packed - source).reshape(blocks.levels.shape)

    assert np.ptp(shift, axis=2).max() < 1e-5


def test_a_centred_source_fits_into_eight_bits_without_loss() -> None:
    blocks = to_centred_blocks(np.random.default_rng(1).standard_normal((5, 96)).astype(np.float32))

    assert np.abs(pack_8bit(blocks).dequantize() - blocks.dequantize()).max() < 1e-6


@given(SEEDS)
def test_a_block_far_from_zero_is_rounded_over_its_own_range(seed: int) -> None:
    blocks = nibble_blocks(seed, zero=(-4000, -3000))
    source = blocks.dequantize()

    packed = pack_8bit(blocks)

    assert (np.abs(packed.dequantize() - source) <= source.max() / 255).all()


@pytest.mark.parametrize("weight", [0.0, 0.25, -3.0])
def test_a_block_of_one_repeated_weight_stays_that_weight(weight: float) -> None:
    flat = AffineBlocks(
        np.zeros((1, 1, BLOCK), np.uint8), np.zeros((1, 1), np.float32), np.full((1, 1), weight, np.float32)
    )

    assert np.array_equal(pack_8bit(flat).dequantize(), np.full((1, BLOCK), weight, np.float32))


@given(SEEDS, st.integers(1, 4))
def test_four_bits_and_the_rest_of_the_offset_are_the_source(seed: int, count: int) -> None:
    blocks = nibble_blocks(seed, blocks=count)

    packed, rest = pack_4bit(blocks)

    together = packed.dequantize() + np.repeat(rest, BLOCK, axis=1)
    assert packed.levels.shape == (4, count, BLOCK // 2)
    assert np.abs(together - blocks.dequantize()).max() < 1e-6


@given(SEEDS)
def test_the_halves_of_eight_bits_add_up_to_the_source(seed: int) -> None:
    weights = np.random.default_rng(seed).standard_normal((3, 96)).astype(np.float32)
    blocks = to_centred_blocks(weights)

    upper, lower = split_8bit(blocks)

    assert np.abs(upper.dequantize() + lower.dequantize() - blocks.dequantize()).max() < 1e-6


def test_levels_past_fifteen_are_refused_for_four_bits() -> None:
    blocks = to_centred_blocks(np.ones((1, BLOCK), np.float32))

    with pytest.raises(ValueError, match="levels past 15"):
        pack_4bit(blocks)


def test_a_source_that_is_not_centred_is_not_split() -> None:
    with pytest.raises(ValueError, match="not centred"):
        split_8bit(nibble_blocks(0))
