"""What genai_config.json says about a model that this package writes. Pure; called by `folder.py` and `reciting_model.py`."""

from collections.abc import Mapping
from dataclasses import dataclass

from prism.export.attention import PRESENT_KEY, PRESENT_VALUE
from prism.export.llama import LlamaShape
from prism.export.tokenizer_files import TokenizerSpec


@dataclass(frozen=True, slots=True)
class SearchDefaults:
    """How a model likes to be sampled when nobody asks otherwise."""

    do_sample: bool = True
    temperature: float = 0.2
    top_p: float = 0.9
    top_k: int = 40
    repetition_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class DynamicBatching:
    """How the engine runs a paged graph when nobody says otherwise. The pool has blocks * block_size places for tokens.

    chunk_size: most rows of one prompt in a step, which is how long the others wait for it.
    """

    max_batch_size: int = 8
    blocks: int = 1024
    block_size: int = 16
    chunk_size: int = 32

    def as_config(self) -> dict[str, object]:
        """The `engine.dynamic_batching` of genai_config.json."""
        return {"block_size": self.block_size, "num_blocks": self.blocks, "max_batch_size": self.max_batch_size}


def genai_config(
    shape: LlamaShape,
    tokenizer: TokenizerSpec,
    inputs: Mapping[str, str],
    search: SearchDefaults,
    batching: DynamicBatching | None = None,
) -> dict[str, object]:
    """The file's content. `inputs` comes from the attention, which knows how the graph is fed. batching: of a paged graph."""
    engine: dict[str, object] = {} if batching is None else {"engine": {"dynamic_batching": batching.as_config()}}
    chunk: dict[str, object] = {} if batching is None else {"chunk_size": batching.chunk_size}

    return {
        **engine,
        "model": {
            "type": "llama",
            "bos_token_id": tokenizer.bos_id,
            "eos_token_id": tokenizer.eos_id,
            "pad_token_id": tokenizer.pad_id,
            "context_length": shape.context_length,
            "vocab_size": shape.vocabulary,
            "decoder": {
                "filename": "model.onnx",
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
                "hidden_size": shape.hidden,
                "head_size": shape.head_size,
                "num_attention_heads": shape.heads,
                "num_key_value_heads": shape.kv_heads,
                "num_hidden_layers": shape.layers,
                "inputs": dict(inputs),
                "outputs": {
                    "logits": "logits",
                    "present_key_names": PRESENT_KEY,
                    "present_value_names": PRESENT_VALUE,
                },
            },
        },
        "search": {
            "do_sample": search.do_sample,
            "temperature": search.temperature,
            "top_p": search.top_p,
            "top_k": search.top_k,
            "repetition_penalty": search.repetition_penalty,
            "num_beams": 1,
            "num_return_sequences": 1,
            "min_length": 0,
            "max_length": shape.context_length,
            "past_present_share_buffer": False,
            **chunk,
        },
    }
