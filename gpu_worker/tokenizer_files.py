"""Facts of tokenizer.json and tokenizer_config.json: the added tokens, and whether a prompt begins with BOS.

Called once while loading. A folder without tokenizer.json gives no added tokens; the engine's own tokenizer then does the decoding.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_worker.json_files import JsonObject, is_integer, is_list, is_object, read_json_object, section

TOKENIZER_NAME = "tokenizer.json"
TOKENIZER_CONFIG_NAME = "tokenizer_config.json"


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token outside the model's own vocabulary, written out whole in a text.

    is_special: it steers the model and is no text of an answer.
    """

    token_id: int
    content: str
    is_special: bool


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """tokenizer: the whole of tokenizer.json, None when the folder has none.

    bos_id, eos_id: the ids of the tokens that tokenizer_config.json names; None when it names none, or names one without an id.
    names_no_bos: it says in so many words that there is no BOS (`"bos_token": null`), whatever genai_config.json says.
    wants_bos: a prompt is to begin with BOS even when its text does not.
    """

    tokenizer: JsonObject | None
    added_tokens: tuple[AddedToken, ...]
    bos_id: int | None
    eos_id: int | None
    names_no_bos: bool
    wants_bos: bool


def read_tokenizer_facts(model_dir: Path) -> TokenizerFacts:
    """Raises LoadFault(BAD_MODEL) for a file that is there and cannot be read."""
    tokenizer = _read_if_there(model_dir / TOKENIZER_NAME)
    config = _read_if_there(model_dir / TOKENIZER_CONFIG_NAME) or {}
    added_tokens = tuple(_added_tokens(tokenizer or {}))
    bos_content = _content(config.get("bos_token"))

    return TokenizerFacts(
        tokenizer=tokenizer,
        added_tokens=added_tokens,
        bos_id=_id_of(bos_content, added_tokens, tokenizer),
        eos_id=_id_of(_content(config.get("eos_token")), added_tokens, tokenizer),
        names_no_bos="bos_token" in config and bos_content is None,
        wants_bos=_wants_bos(config, tokenizer or {}, bos_content),
    )


def _read_if_there(path: Path) -> JsonObject | None:
    return read_json_object(path) if path.exists() else None


def _added_tokens(tokenizer: JsonObject) -> Iterator[AddedToken]:
    entries = tokenizer.get("added_tokens")

    for entry in entries if is_list(entries) else []:
        if not is_object(entry):
            continue

        token_id, content = entry.get("id"), entry.get("content")

        if is_integer(token_id) and token_id >= 0 and isinstance(content, str) and content:
            yield AddedToken(token_id, content, entry.get("special") is True)


def _content(token: object) -> str | None:
    """A token is named by its text, or by an object that holds it."""
    content = token.get("content") if is_object(token) else token
    return content if isinstance(content, str) and content else None


def _id_of(content: str | None, added_tokens: tuple[AddedToken, ...], tokenizer: JsonObject | None) -> int | None:
    if content is None:
        return None

    for added in added_tokens:
        if added.content == content:
            return added.token_id

    vocabulary = section(section(tokenizer or {}, "model"), "vocab")
    token_id = vocabulary.get(content)
    return token_id if is_integer(token_id) else None


def _wants_bos(config: JsonObject, tokenizer: JsonObject, bos_content: str | None) -> bool:
    told = config.get("add_bos_token")

    if isinstance(told, bool):
        return told

    # Tokenizers without that flag (Llama 3) say it by a template that puts BOS before every text.
    return bos_content is not None and any(
        _begins_with(processor, bos_content) for processor in _processors(section(tokenizer, "post_processor"))
    )


def _processors(post_processor: JsonObject) -> Iterator[JsonObject]:
    yield post_processor
    nested = post_processor.get("processors")

    for processor in nested if is_list(nested) else []:
        if is_object(processor):
            yield processor


def _begins_with(processor: JsonObject, content: str) -> bool:
    single = processor.get("single")

    if processor.get("type") != "TemplateProcessing" or not is_list(single) or not single:
        return False

    first = single[0]
    return is_object(first) and section(first, "SpecialToken").get("id") == content
