"""Turns a GGUF file into an ONNX Runtime GenAI folder. Called by `prism/pull/demo_model.py`; blocks for seconds."""

from pathlib import Path

from prism.export.folder import write_model_folder
from prism.export.genai_config import DynamicBatching, SearchDefaults
from prism.export.gguf_model import GgufModel
from prism.export.layout import Precision
from prism.export.progress import Progress

# Of one sequence: the source's levels in float32, so nothing is lost, and prompts are read faster than with INT8_FINE.
DEFAULT_PRECISION = Precision.INT4
# Of several: the float kernel is made for one row, and four requests would have no more tokens a second than one.
PAGED_PRECISION = Precision.INT8_FINE


def convert_gguf(
    source: Path,
    folder: Path,
    *,
    precision: Precision | None = None,
    progress: Progress,
    batching: DynamicBatching | None = None,
) -> None:
    """Write the model of `source` into the existing, empty `folder`. Raises ExportError, or OSError as the disk does.

    batching: for several requests at once; None for one. precision: None for the best of each (docs/performance.md has the figures).
    """
    if precision is None:
        precision = DEFAULT_PRECISION if batching is None else PAGED_PRECISION

    model = GgufModel(source)
    write_model_folder(
        folder,
        model,
        model.tokenizer(),
        layout=precision.layout,
        search=SearchDefaults(),
        progress=progress,
        batching=batching,
    )
