"""All that is read from a model folder before the engine reads it, in one value. Called once, by `worker.py`."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_worker.json_files import bad_model, section
from gpu_worker.markers import visible_markers
from gpu_worker.model_files import CONFIG_NAME, ModelConfig, read_model_config
from gpu_worker.picture_prompt import spare_tokens
from gpu_worker.tokenizer_files import (
    TOKENIZER_CONFIG_NAME,
    TOKENIZER_NAME,
    AddedToken,
    TokenizerFacts,
    read_tokenizer_facts,
)
from gpu_worker.vocabulary import UnknownDecoder, Vocabulary, read_vocabulary

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """vocabulary: None when the folder's tokenizer is of a kind that we cannot decode; the engine decodes then, helped by `shown`.

    eos_ids: never empty. shown: the text that added and silent tokens show, by id; empty for those that make no text.
    spare_tokens: control tokens that may stand between two pieces of a prompt with pictures.
    """

    path: Path
    config: ModelConfig
    eos_ids: frozenset[int]
    bos_id: int | None
    wants_bos: bool
    added_ids: frozenset[int]
    shown: Mapping[int, str]
    vocabulary: Vocabulary | None
    spare_tokens: tuple[AddedToken, ...]


def read_model_folder(path: Path) -> ModelFolder:
    """Blocks for the reading of tokenizer.json (up to a few tenths of a second). Raises LoadFault(BAD_MODEL)."""
    config = read_model_config(path)
    tokenizer = read_tokenizer_facts(path)
    _check_tokens(path, tokenizer)
    eos_ids = _eos_ids(config, tokenizer)
    bos_id = None if tokenizer.names_no_bos else tokenizer.bos_id if tokenizer.bos_id is not None else config.bos_id
    added_ids = frozenset(added.token_id for added in tokenizer.added_tokens)
    # Exporters write 0 where a model has no padding or BOS, and 0 is "!" in many vocabularies: only a token that is no text is silent.
    silent_ids = eos_ids | (added_ids & {bos_id, config.bos_id, config.pad_id})
    shown = dict.fromkeys(silent_ids, "") | shown_texts(tokenizer.added_tokens, silent_ids)

    return ModelFolder(
        path=path,
        config=config,
        eos_ids=eos_ids,
        bos_id=bos_id,
        wants_bos=tokenizer.wants_bos,
        added_ids=added_ids,
        shown=shown,
        vocabulary=_vocabulary(tokenizer, shown),
        spare_tokens=spare_tokens(tokenizer.added_tokens, silent_ids) if config.sees else (),
    )


def _check_tokens(path: Path, tokenizer: TokenizerFacts) -> None:
    # Given a tokenizer without tokens the engine (0.18) encodes with what happens to lie in memory.
    if tokenizer.tokenizer is not None and not section(tokenizer.tokenizer, "model").get("vocab"):
        raise bad_model(f"{path / TOKENIZER_NAME} has no tokens (`model.vocab`)")


def _eos_ids(config: ModelConfig, tokenizer: TokenizerFacts) -> frozenset[int]:
    if config.eos_ids:
        return config.eos_ids

    if tokenizer.eos_id is None:
        raise bad_model(f"neither {CONFIG_NAME} nor {TOKENIZER_CONFIG_NAME} names an end-of-sequence token")

    return frozenset({tokenizer.eos_id})


def shown_texts(added_tokens: Collection[AddedToken], silent_ids: Collection[int]) -> dict[int, str]:
    """Return what each added token shows of itself: its text when it is text or a marker, else nothing."""
    markers = visible_markers({added.content for added in added_tokens})

    return {
        added.token_id: added.content
        if added.content in markers or not (added.is_special or added.token_id in silent_ids)
        else ""
        for added in added_tokens
    }


def _vocabulary(tokenizer: TokenizerFacts, shown: Mapping[int, str]) -> Vocabulary | None:
    if tokenizer.tokenizer is None:
        return None

    try:
        return read_vocabulary(tokenizer.tokenizer, shown)
    except UnknownDecoder as error:
        logger.warning("the engine's own decoder is used: %s", error)
        return None
