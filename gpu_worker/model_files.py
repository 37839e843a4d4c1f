"""What the worker must know of a model folder before the engine reads it: window, end tokens, the names of its files.

Pure but for reading two small files. Called once, by `worker.py`, before the engine is imported: a wrong folder is told in milliseconds.
"""

from dataclasses import dataclass
from pathlib import Path

from gpu_worker.config_bounds import check_bounds
from gpu_worker.json_files import JsonObject, bad_model, is_integer, is_list, is_object, read_json_object, section
from gpu_worker.kv_facts import KvFacts, read_kv_facts

CONFIG_NAME = "genai_config.json"
# What the engine's tokenizers can start from, as the front's catalog knows it: what is listed there is not refused here.
TOKENIZER_NAMES = ("tokenizer.json", "tokenizer.model", "tokenizer_module.json", "vocab.json", "vocab.txt")
_TOKENIZER_PATTERN = "*.tiktoken"
# The engine's own (0.18), where the file is silent.
_DEFAULT_BLOCK_SIZE = 256


@dataclass(frozen=True, slots=True)
class DynamicBatching:
    """`engine.dynamic_batching` of a model whose graph takes several sequences at once, over a pool of blocks for tokens.

    block_size: tokens in a block. blocks: in the pool; None where the file leaves it to the engine, which would take nearly all memory.
    chunk_size: most tokens of one prompt in a step (`search.chunk_size`); None means no bound.
    """

    block_size: int
    blocks: int | None
    chunk_size: int | None


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Facts of genai_config.json.

    context_length: `model.context_length`. It alone is the window: `search.max_length` is the default length of a generator, which is
        always set by us, and the engine holds a generator to the context length only. None when absent.
    eos_ids: empty when the file names none.
    batching: None for a graph that takes one sequence.
    model_type: `model.type`; empty when absent. sees: it has a part for pictures.
    """

    context_length: int | None
    vocabulary_size: int | None
    top_k: int | None
    eos_ids: frozenset[int]
    bos_id: int | None
    pad_id: int | None
    kv: KvFacts
    batching: DynamicBatching | None = None
    model_type: str = ""
    sees: bool = False


def read_model_config(model_dir: Path) -> ModelConfig:
    """Raises LoadFault(BAD_MODEL) when the folder is no GenAI model, naming what is wrong with it."""
    if not model_dir.is_dir():
        raise bad_model(f"{model_dir} is no folder")

    config = read_json_object(model_dir / CONFIG_NAME, refuses_doubles=True)
    check_bounds(config, CONFIG_NAME)
    model = config.get("model")

    if not is_object(model):
        raise bad_model(f"{model_dir / CONFIG_NAME} has no object `model`")

    if not _has_tokenizer(model_dir):
        raise bad_model(f"{model_dir} has no tokenizer ({' or '.join(TOKENIZER_NAMES[:2])})")

    _check_graph_files(model_dir, model)

    return ModelConfig(
        context_length=_positive(model, "context_length"),
        vocabulary_size=_positive(model, "vocab_size"),
        top_k=_positive(section(config, "search"), "top_k"),
        eos_ids=_eos_ids(model),
        bos_id=_token_id(model, "bos_token_id"),
        pad_id=_token_id(model, "pad_token_id"),
        kv=read_kv_facts(config),
        batching=_batching(config),
        model_type=str(model.get("type") or ""),
        sees=bool(section(model, "vision").get("filename")),
    )


def _batching(config: JsonObject) -> DynamicBatching | None:
    engine = section(config, "engine")

    batching = section(engine, "dynamic_batching")

    # The engine takes an empty one for none.
    if not batching:
        return None

    block_size = _positive(batching, "block_size") or _DEFAULT_BLOCK_SIZE
    chunk_size = _positive(section(config, "search"), "chunk_size")
    return DynamicBatching(block_size, _positive(batching, "num_blocks"), chunk_size)


def _has_tokenizer(model_dir: Path) -> bool:
    others = model_dir.glob(_TOKENIZER_PATTERN)
    return any((model_dir / name).is_file() for name in TOKENIZER_NAMES) or any(path.is_file() for path in others)


def _check_graph_files(model_dir: Path, model: JsonObject) -> None:
    filename = section(model, "decoder").get("filename")

    if not isinstance(filename, str):
        return

    try:
        size = (model_dir / filename).stat().st_size
    except (OSError, ValueError) as error:
        raise bad_model(f"{filename!r} is missing in {model_dir}, though {CONFIG_NAME} names it") from error

    if size == 0:
        raise bad_model(f"{model_dir / filename} is empty")


def _positive(parent: JsonObject, key: str) -> int | None:
    value = parent.get(key)

    if value is None:
        return None

    if not is_integer(value) or value < 0:
        raise bad_model(f"{key} in {CONFIG_NAME} must be a whole number above 0, not {value!r}")

    # Exporters write 0 for "not set".
    return value or None


def _token_id(parent: JsonObject, key: str) -> int | None:
    value = parent.get(key)

    # Some exporters write a list here too, the first being the one in use.
    if is_list(value) and value:
        value = value[0]

    return value if is_integer(value) and value >= 0 else None


def _eos_ids(model: JsonObject) -> frozenset[int]:
    value = model.get("eos_token_id")
    ids = value if is_list(value) else [] if value is None else [value]

    for entry in ids:
        if not is_integer(entry):
            raise bad_model(f"eos_token_id in {CONFIG_NAME} must be a token id or a list of them, not {value!r}")

    return frozenset(entry for entry in ids if is_integer(entry) and entry >= 0)
