"""The layouts that are compared, and the folders that they are written into. Blocks for seconds a layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prism.export.convert import convert_gguf
from prism.export.genai_config import DynamicBatching
from prism.export.layout import Form, Layout, Precision, Vectors

REFERENCE = "fp32"

_ROUNDED = Form(8, Vectors.ROUNDED)
_FINE = Form(8, Vectors.FINE)
_LAST_LAYER = 29

LAYOUTS = {
    REFERENCE: Precision.FP32.layout,
    "int4": Precision.INT4.layout,
    "int8": Precision.INT8.layout,
    "int8-fine": Precision.INT8_FINE.layout,
    "int4-fine": Layout(body=Form(4, Vectors.FINE), head=_FINE),
    "int4-rounded": Layout(body=Form(4, Vectors.ROUNDED), head=_ROUNDED),
    "int4-rounded-block16": Layout(body=Form(4, Vectors.ROUNDED, block=16), head=_ROUNDED),
    "int4-rounded-block64": Layout(body=Form(4, Vectors.ROUNDED, block=64), head=_ROUNDED),
    "int8-block16": Layout(body=Form(8, Vectors.ROUNDED, block=16), head=_ROUNDED),
    "int8-block64": Layout(body=Form(8, Vectors.ROUNDED, block=64), head=_ROUNDED),
    "int8-head-fine": Layout(body=_ROUNDED, head=_FINE),
    "int8-outputs-fine": Layout(
        body=_ROUNDED, head=_FINE, exceptions=(("*.down", _FINE), ("*.attention_output", _FINE))
    ),
    "int8-inputs-fine": Layout(body=_FINE, head=_FINE, exceptions=(("*.down", _ROUNDED),)),
    "int8-ends-fine": Layout(
        body=_ROUNDED,
        head=_FINE,
        exceptions=tuple((f"layer.{number}.*", _FINE) for number in (0, 1, _LAST_LAYER - 1, _LAST_LAYER)),
    ),
    "fp32-head-fine": Layout(body=Form(32), head=_FINE),
}


@dataclass(frozen=True, slots=True)
class Written:
    """A layout on the disk, in both graphs. ordinary: for og.Generator. paged: for og.Engine."""

    name: str
    ordinary: Path
    paged: Path

    @property
    def size_mb(self) -> float:
        """Of the ordinary folder."""
        return sum(path.stat().st_size for path in self.ordinary.iterdir()) / 1e6


def write_layouts(names: Sequence[str], source: Path, work_dir: Path) -> list[Written]:
    """Write those that are not in `work_dir` yet."""
    return [_written(name, source, work_dir) for name in names]


def _written(name: str, source: Path, work_dir: Path) -> Written:
    written = Written(name, work_dir / f"{name}.ordinary", work_dir / f"{name}.paged")

    for folder, batching in ((written.ordinary, None), (written.paged, DynamicBatching())):
        # The configuration is written last.
        if not (folder / "genai_config.json").exists():
            folder.mkdir(parents=True)
            convert_gguf(source, folder, layout=LAYOUTS[name], progress=lambda *_: None, batching=batching)

    return written
