"""What Prism knows about one model that lies on disk.

Made by `prism.model_folder`, listed by `prism.catalog`, shown by HTTP and the command line.
"""

from dataclasses import dataclass
from pathlib import Path

from prism.image_families import ImageFamily

EXPORTED_FOR_CPU = "CPU"
EXPORTED_FOR_CUDA = "CUDA (GPU)"
OWNED_BY = "ONNX Runtime GenAI"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """A folder that the engine can be expected to load.

    id: the name that clients use.
    path: absolute, as found: a symbolic link on the way to it is kept.
    size_mb: MiB of the files directly in the folder (targets of symbolic links), one decimal.
    exported_for: what the files were built for. It says nothing about where the model will run.
    model_type: `model.type` of the config; None when the config does not say.
    context_length: tokens in the window; None when the config does not say.
    images: how its prompts show pictures; None for a model that takes none.
    created: modification time of the config, Unix seconds; the same on every call until the model is replaced.
    """

    id: str
    path: Path
    size_mb: float
    exported_for: str
    model_type: str | None
    context_length: int | None
    created: int
    images: ImageFamily | None = None
    owned_by: str = OWNED_BY
