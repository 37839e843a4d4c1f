"""Turns a GGUF file into an ONNX Runtime GenAI folder. Called by `prism/pull/demo_model.py`; blocks for seconds."""

from pathlib import Path

from prism.export.folder import write_model_folder
from prism.export.genai_config import DynamicBatching, SearchDefaults
from prism.export.gguf_model import GgufModel
from prism.export.matrices import Precision
from prism.export.progress import Progress

DEFAULT_PRECISION = Precision.INT4


def convert_gguf(
    source: Path,
    folder: Path,
    *,
    precision: Precision = DEFAULT_PRECISION,
    progress: Progress,
    batching: DynamicBatching | None = None,
) -> None:
    """Write the model of `source` into the existing, empty `folder`. Raises ExportError, or OSError as the disk does.

    batching: for several requests at once; None for one.
    """
    model = GgufModel(source)
    write_model_folder(
        folder,
        model,
        model.tokenizer(),
        precision=precision,
        search=SearchDefaults(),
        progress=progress,
        batching=batching,
    )
