"""Writes the tokenizer files of a GenAI folder: a byte-level BPE in tokenizer.json, its settings, and the chat template.

Called by `folder.py`. Blocks on the disk only.
"""

import json
from dataclasses import dataclass
from pathlib import Path

# The split of a text before BPE, as SmolLM2 was trained: digits one by one, then GPT-2's pattern. The engine (onnxruntime-genai 0.18)
# reads this pair as one pattern, so a run of white space before a digit becomes two pieces where training had one ("\n\n1"), and a
# number other than an ASCII digit keeps the space before it. A pattern of our own that says it exactly is no way out: for what it does
# not know the engine goes to a recursive matcher, which ends the process on 100,000 spaces, raises on some texts and takes minutes on
# others.
_DIGITS = {"type": "Digits", "individual_digits": True}
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


@dataclass(frozen=True, slots=True)
class TokenizerSpec:
    """A byte-level BPE tokenizer.

    tokens: text of each id, in the printable spelling of bytes that GPT-2 introduced. merges: "left right", best first.
    control_ids: tokens that steer the conversation and decode to nothing. added_ids: tokens that are matched whole like those
    but are part of the text, such as `<think>`.
    """

    tokens: tuple[str, ...]
    merges: tuple[str, ...]
    control_ids: tuple[int, ...]
    added_ids: tuple[int, ...]
    bos_id: int
    eos_id: int
    pad_id: int
    unknown_id: int
    chat_template: str


def byte_spelling() -> tuple[str, ...]:
    """The printable character that stands for each byte: itself where it is visible, else the next free one from U+0100 on."""
    visible = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    spelling: list[str] = []
    hidden = 0

    for byte in range(256):
        if byte in visible:
            spelling.append(chr(byte))
            continue

        spelling.append(chr(256 + hidden))
        hidden += 1

    return tuple(spelling)


def write_tokenizer(folder: Path, spec: TokenizerSpec, *, context_length: int) -> None:
    """Write tokenizer.json, tokenizer_config.json, special_tokens_map.json and chat_template.jinja."""
    roles = {
        "bos_token": spec.tokens[spec.bos_id],
        "eos_token": spec.tokens[spec.eos_id],
        "pad_token": spec.tokens[spec.pad_id],
        "unk_token": spec.tokens[spec.unknown_id],
    }
    _write_json(folder / "tokenizer.json", _tokenizer(spec))
    _write_json(folder / "special_tokens_map.json", roles)
    _write_json(
        folder / "tokenizer_config.json",
        roles
        | {
            "add_bos_token": False,
            "add_prefix_space": False,
            "clean_up_tokenization_spaces": False,
            "model_max_length": context_length,
            "tokenizer_class": "GPT2Tokenizer",
        },
    )
    (folder / "chat_template.jinja").write_text(spec.chat_template, encoding="utf-8")


def _tokenizer(spec: TokenizerSpec) -> dict[str, object]:
    added = dict.fromkeys(spec.added_ids, False) | dict.fromkeys(spec.control_ids, True)

    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added_token(spec.tokens[index], index, special=added[index]) for index in sorted(added)],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [_DIGITS, _BYTE_LEVEL]},
        "post_processor": None,
        "decoder": _BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: index for index, token in enumerate(spec.tokens)},
            "merges": list(spec.merges),
        },
    }


def _added_token(text: str, index: int, *, special: bool) -> dict[str, object]:
    return {
        "id": index,
        "content": text,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": special,
    }


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
