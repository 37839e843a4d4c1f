"""Writes a complete ONNX Runtime GenAI folder: graph, weights, configuration, tokenizer.

Called by `convert.py` and `tiny_model.py`. The folder is written in place; who needs it whole or not at all stages it elsewhere
(`prism/pull/staging.py`). Blocks for seconds on a real model.
"""

import json
from pathlib import Path

from prism.export.attention import GrowingCacheAttention
from prism.export.genai_config import DynamicBatching, SearchDefaults, genai_config
from prism.export.graph import Graph
from prism.export.layout import Layout
from prism.export.llama import LlamaWeights
from prism.export.llama_graph import write_llama
from prism.export.paged_attention import PagedAttention
from prism.export.progress import Progress
from prism.export.tokenizer_files import TokenizerSpec, write_tokenizer


def write_model_folder(
    folder: Path,
    weights: LlamaWeights,
    tokenizer: TokenizerSpec,
    *,
    layout: Layout,
    search: SearchDefaults,
    progress: Progress,
    batching: DynamicBatching | None = None,
) -> None:
    """Write every file of the model into `folder`, which exists and holds none of them. Raises OSError as the disk does.

    batching: write a paged graph, which og.Engine runs for several sequences at once; None writes one for og.Generator.
    """
    shape = weights.shape

    with Graph(folder) as graph:
        attention = GrowingCacheAttention(graph, shape) if batching is None else PagedAttention(graph, shape)
        write_llama(graph, weights, attention, layout, progress)
        graph.save()

    write_tokenizer(folder, tokenizer, context_length=shape.context_length)
    config = genai_config(shape, tokenizer, attention.config_inputs(), search, batching)
    (folder / "genai_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
