"""Matrices in blocks of (mostly) 32 weights that share a step and an offset: the common form of the quantised sources.

Pure arithmetic on arrays; `quantize.py` turns these blocks into the layouts of ONNX Runtime.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

BLOCK = 32


@dataclass(frozen=True, slots=True)
class AffineBlocks:
    """A matrix [rows, blocks * block] whose weight is `step * level + offset`.

    levels: uint8 [rows, blocks, block]. step and offset: float32 [rows, blocks], offset in the unit of the weights.
    """

    levels: npt.NDArray[np.uint8]
    step: npt.NDArray[np.float32]
    offset: npt.NDArray[np.float32]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        rows, blocks, block = self.levels.shape

        return rows, blocks * block

    def dequantize(self) -> npt.NDArray[np.float32]:
        """The matrix as float32 [rows, columns]."""
        values = self.levels.astype(np.float32)
        values *= self.step[:, :, None]
        values += self.offset[:, :, None]

        return values.reshape(self.shape)

    def take_rows(self, order: npt.NDArray[np.intp]) -> "AffineBlocks":
        """The same matrix with its rows in another order. Blocks run along a row, so nothing is lost."""
        return AffineBlocks(self.levels[order], self.step[order], self.offset[order])


def dequantized(matrix: npt.NDArray[np.float32] | AffineBlocks) -> npt.NDArray[np.float32]:
    """The weights as float32, whatever form they have."""
    return matrix.dequantize() if isinstance(matrix, AffineBlocks) else matrix


def stack_rows(
    matrices: Sequence[npt.NDArray[np.float32] | AffineBlocks],
) -> npt.NDArray[np.float32] | AffineBlocks:
    """Matrices of the same width under each other, so that one product serves them all. Mixed forms become float32."""
    blocks = [matrix for matrix in matrices if isinstance(matrix, AffineBlocks)]

    if len(blocks) == len(matrices):
        return AffineBlocks(
            np.concatenate([matrix.levels for matrix in blocks]),
            np.concatenate([matrix.step for matrix in blocks]),
            np.concatenate([matrix.offset for matrix in blocks]),
        )

    return np.concatenate([dequantized(matrix) for matrix in matrices])


def to_affine_blocks(values: npt.NDArray[np.float32], *, bits: int, block: int = BLOCK) -> AffineBlocks:
    """Round float weights to 2**bits evenly spaced levels, one of which is zero, from the least to the greatest of each block.

    Raises ValueError when a row is not a whole number of blocks.
    """
    grouped = _grouped(values, block)
    least = np.minimum(grouped.min(axis=2), 0)
    step = ((np.maximum(grouped.max(axis=2), 0) - least) / (2**bits - 1)).astype(np.float32)
    safe_step = np.where(step > 0, step, np.float32(1))
    zero = np.rint(-least / safe_step)
    levels = np.clip(np.rint(grouped / safe_step[:, :, None] + zero[:, :, None]), 0, 2**bits - 1)

    return AffineBlocks(levels.astype(np.uint8), step, (-zero * step).astype(np.float32))


def to_centred_blocks(values: npt.NDArray[np.float32]) -> AffineBlocks:
    """Round float weights to 8 bits around zero, level 128 being zero, as the source format Q8_0 does.

    Raises ValueError when a row is not a whole number of blocks.
    """
    grouped = _grouped(values, BLOCK)
    step = (np.abs(grouped).max(axis=2) / 127).astype(np.float32)
    levels = (np.rint(grouped / np.where(step > 0, step, 1)[:, :, None]) + 128).astype(np.uint8)

    return AffineBlocks(levels, step, step * np.float32(-128))


def _grouped(values: npt.NDArray[np.float32], block: int) -> npt.NDArray[np.float32]:
    rows, columns = values.shape

    if columns % block:
        raise ValueError(f"a row of {columns} weights is not a multiple of the block of {block}")

    return values.reshape(rows, columns // block, block)
