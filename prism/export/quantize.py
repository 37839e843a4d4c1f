"""Turns affine blocks into what MatMulNBits reads: integer levels, one scale and one *integer* zero point a block.

Pure arithmetic. A source block is `step * level + offset`; the kernel computes `scale * (level - zero)`. Its zero point must be an integer:
float zero points leave the fast kernels of the CPU provider (1.4 ms a product instead of 0.08). What an integer cannot say goes elsewhere.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from prism.export.blocks import AffineBlocks, to_affine_blocks

FloatArray: TypeAlias = npt.NDArray[np.float32]
ByteArray: TypeAlias = npt.NDArray[np.uint8]

_MAX_BYTE = 255
_MAX_NIBBLE = 15
# The zero point that MatMulNBits takes for 4 bits when it is given none.
_MIDDLE_NIBBLE = 8


@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """The inputs of one MatMulNBits node.

    levels: uint8 [rows, blocks, block * bits / 8], two 4-bit levels a byte, the lower half first. scales: float32 [rows, blocks].
    zero_points: uint8 [rows, blocks] for 8 bits, [rows, ceil(blocks / 2)] for 4; None for 4 bits means 8 everywhere.
    """

    bits: int
    levels: ByteArray
    scales: FloatArray
    zero_points: ByteArray | None

    @property
    def block(self) -> int:
        """Weights that share a scale."""
        return int(self.levels.shape[2]) * 8 // self.bits

    @property
    def rows(self) -> int:
        """Outputs of the product."""
        return int(self.scales.shape[0])

    @property
    def columns(self) -> int:
        """Inputs of the product."""
        return int(self.scales.shape[1]) * self.block

    def dequantize(self) -> FloatArray:
        """What the kernel computes with, as float32 [rows, columns]."""
        levels = self.levels if self.bits == 8 else _unpack_nibbles(self.levels)
        centred = levels.astype(np.float32) - self.zeros()[:, :, None]

        return (centred * self.scales[:, :, None]).reshape(self.rows, self.columns)

    def zeros(self) -> FloatArray:
        """The zero point of every block, float32 [rows, blocks]."""
        if self.zero_points is None:
            return np.full(self.scales.shape, _MIDDLE_NIBBLE, np.float32)

        zeros = self.zero_points if self.bits == 8 else _unpack_nibbles(self.zero_points)

        return zeros[:, : self.scales.shape[1]].astype(np.float32)


def pack_8bit(blocks: AffineBlocks) -> PackedMatrix:
    """Keep every level of the source exactly, and spend the spare bits on its zero point.

    Blocks whose offset is too far from zero for that are rounded over their own range.
    A source of 16 levels fits into 256 with each level multiplied by a whole number k up to 17. Then the zero point is
    `-offset / step * k`, and k is chosen block by block so that this is as near to an integer as possible.
    """
    blocks = _with_steps(blocks)
    levels, step = blocks.levels.astype(np.int32), blocks.step
    zero = -blocks.offset.astype(np.float64) / step
    most, least = levels.max(axis=2), levels.min(axis=2)
    factor = _best_factor(zero, most, least)

    whole = np.rint(zero * factor).astype(np.int32)
    low = np.minimum(whole, least * factor)
    packed = (levels * factor[:, :, None] - low[:, :, None]).astype(np.uint8)
    scales = (step / np.maximum(factor, 1)).astype(np.float32)
    zeros = (whole - low).astype(np.uint8)
    is_far = factor == 0

    if is_far.any():
        far = blocks.dequantize().reshape(levels.shape)[is_far]
        nearer = pack_8bit(to_affine_blocks(far, bits=8, block=levels.shape[2]))
        packed[is_far], scales[is_far], zeros[is_far] = nearer.levels[:, 0], nearer.scales[:, 0], nearer.zeros()[:, 0]

    return PackedMatrix(8, packed, scales, zeros)


def pack_4bit(blocks: AffineBlocks) -> tuple[PackedMatrix, FloatArray]:
    """Keep a source of 16 levels as it is: a matrix with the zero point 8, and what is left of the offset, float32 [rows, blocks].

    The product with the source is the product with that matrix, plus the sums of each block of inputs times the second result.
    Raises ValueError when a level is past 15.
    """
    if not has_nibbles(blocks):
        raise ValueError("a source with levels past 15 does not fit into 4 bits")

    rest = blocks.offset + np.float32(_MIDDLE_NIBBLE) * blocks.step

    return PackedMatrix(4, _pack_nibbles(blocks.levels), blocks.step, None), rest


def split_8bit(blocks: AffineBlocks) -> tuple[PackedMatrix, PackedMatrix]:
    """Two 4-bit matrices whose sum is a source of 256 levels around 128: the upper halves of the levels, and the lower.

    The 4-bit kernel has a fast form that does not round the activations, and the 8-bit kernel has not.
    Raises ValueError when a block is not centred, which only `to_centred_blocks` and Q8_0 promise.
    """
    if not is_centred(blocks):
        raise ValueError("a source that is not centred on level 128 cannot be split")

    rows, count = blocks.step.shape
    no_zero = np.zeros((rows, (count + 1) // 2), np.uint8)
    upper = PackedMatrix(4, _pack_nibbles(blocks.levels >> np.uint8(4)), blocks.step * np.float32(16), None)
    lower = PackedMatrix(4, _pack_nibbles(blocks.levels & np.uint8(_MAX_NIBBLE)), blocks.step, no_zero)

    return upper, lower


def has_nibbles(blocks: AffineBlocks) -> bool:
    """Whether every level fits into 4 bits."""
    return int(blocks.levels.max(initial=0)) <= _MAX_NIBBLE


def is_centred(blocks: AffineBlocks) -> bool:
    """Whether level 128 is zero in every block."""
    return np.array_equal(blocks.offset, blocks.step * np.float32(-128))


def _best_factor(
    zero: npt.NDArray[np.float64], most: npt.NDArray[np.int32], least: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """For each block the whole number whose multiple of `zero` is nearest to an integer, relative to itself; 0 where none fits a byte."""
    best = np.zeros(zero.shape, np.int32)
    best_error = np.full(zero.shape, np.inf)

    for factor in range(1, _MAX_BYTE // max(1, int(most.max(initial=0))) + 1):
        scaled = zero * factor
        whole = np.rint(scaled)
        span = np.maximum(whole, most * factor) - np.minimum(whole, least * factor)
        error = np.where(span <= _MAX_BYTE, np.abs(whole - scaled) / factor, np.inf)
        is_better = error < best_error
        best[is_better] = factor
        best_error[is_better] = error[is_better]

    return best


def _with_steps(blocks: AffineBlocks) -> AffineBlocks:
    """Give blocks of one repeated weight (step 0) a step that their offset is a whole multiple of."""
    is_flat = blocks.step == 0
    size = np.where(blocks.offset == 0, np.float32(1), np.abs(blocks.offset))
    levels = np.where(is_flat[:, :, None], np.uint8(0), blocks.levels)

    return AffineBlocks(levels, np.where(is_flat, size, blocks.step), blocks.offset)


def _pack_nibbles(values: ByteArray) -> ByteArray:
    """Two 4-bit values a byte along the last axis, which is even; the first in the lower half."""
    return values[..., 0::2] | (values[..., 1::2] << np.uint8(4))


def _unpack_nibbles(values: ByteArray) -> ByteArray:
    return np.stack([values & np.uint8(_MAX_NIBBLE), values >> np.uint8(4)], axis=-1).reshape(*values.shape[:-1], -1)
