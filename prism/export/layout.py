"""Which form each weight matrix has in the graph: how it is stored, and in which arithmetic it is multiplied. Pure values.

Chosen by `convert.py` and the benchmarks, carried out by `matrices.py`.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from fnmatch import fnmatchcase

from prism.export.blocks import BLOCK

HEAD = "embedding"


class Vectors(Enum):
    """In which form the vectors are multiplied by packed weights.

    FLOAT: as they are; the kernel is made for one row and 4 bits. ROUNDED: to 8 bits, block by block. FINE: as the sum of two such
    vectors, the second of which is what the first leaves, hence to 16 bits at the price of two rows.
    """

    FLOAT = "float"
    ROUNDED = "rounded"
    FINE = "fine"


@dataclass(frozen=True, slots=True)
class Form:
    """bits of a weight: 32 (float32), 8 or 4. block: weights that share a scale. They are rounded anew where it is not the source's."""

    bits: int
    vectors: Vectors = Vectors.FLOAT
    block: int = BLOCK


@dataclass(frozen=True, slots=True)
class Layout:
    """head: the embedding, which is also the output head. exceptions: patterns of names ("layer.0.*", "*.down"), first one first."""

    body: Form
    head: Form
    exceptions: tuple[tuple[str, Form], ...] = ()

    def form_of(self, name: str) -> Form:
        """The form of the matrix with this name."""
        if name == HEAD:
            return self.head

        return next((form for pattern, form in self.exceptions if fnmatchcase(name, pattern)), self.body)


class Precision(StrEnum):
    """The layouts that have a name.

    Of the demo model on two cores (docs/performance.md has all figures): size, tokens a second of one sequence and of four in the paged
    form, and the share of tokens that are float32's:

        fp32       540 MB  33, 101  1
        int8       160 MB  80, 209  0.974  the activations are rounded to 8 bits, which changes answers of a small model
        int8-fine  160 MB  60, 131  0.998
        int4       120 MB  53,  73  1      the source's own 4-bit levels, multiplied in float32
    """

    FP32 = "fp32"
    INT8 = "int8"
    INT8_FINE = "int8-fine"
    INT4 = "int4"

    @property
    def layout(self) -> Layout:
        """What the name stands for."""
        return _LAYOUTS[self]


_LAYOUTS = {
    Precision.FP32: Layout(body=Form(32), head=Form(32)),
    Precision.INT8: Layout(body=Form(8, Vectors.ROUNDED), head=Form(8, Vectors.ROUNDED)),
    Precision.INT8_FINE: Layout(body=Form(8, Vectors.FINE), head=Form(8, Vectors.FINE)),
    Precision.INT4: Layout(body=Form(4), head=Form(8)),
}
