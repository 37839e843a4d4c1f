"""Turns a GGUF file into an ONNX Runtime GenAI folder. Called by `prism/pull/demo_model.py`; blocks for seconds."""

from pathlib import Path

from prism.export.folder import write_model_folder
from prism.export.genai_config import DynamicBatching, SearchDefaults
from prism.export.gguf_model import GgufModel
from prism.export.layout import Layout, Precision
from prism.export.progress import Progress

# Of one sequence: the source's levels in float32, so nothing is lost, and prompts are read faster than with INT8_FINE.
DEFAULT_PRECISION = Precision.INT4
# Of several: the float kernel is made for one row, and four requests would have no more tokens a second than one.
PAGED_PRECISION = Precision.INT8_FINE


def convert_gguf(
    source: Path,
    folder: Path,
    *,
    layout: Layout | None = None,
    progress: Progress,
    batching: DynamicBatching | None = None,
) -> None:
    """Write the model of `source` into the existing, empty `folder`. Raises ExportError, or OSError as the disk does.

    batching: for several requests at once; None for one. layout: None for the best of each (docs/performance.md has the figures).
    """
    if layout is None:
        layout = (DEFAULT_PRECISION if batching is None else PAGED_PRECISION).layout

    model = GgufModel(source)
    write_model_folder(
        folder,
        model,
        model.tokenizer(),
        layout=layout,
        search=SearchDefaults(),
        progress=progress,
        batching=batching,
    )
