"""The tokenizer of the models that tests make for themselves: 256 bytes, a few merges, ChatML's tokens. Pure."""

from collections.abc import Sequence

from prism.export.tokenizer_files import TokenizerSpec, byte_spelling

CHATML_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

_CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# Matched whole, but part of the text: a reply is searched for them.
_ADDED = ("<think>", "</think>", "<tool_call>", "</tool_call>")
_MERGES = (
    *("h e", "i n", "r e", "o n", "e r", "a t", "o r", "e n", "i s", "a l", "o u", "i t", "a n", "s t"),
    *("Ġ t", "Ġ a", "Ġ s", "Ġt he", "in g", "Ġan d", "Ġ Ġ", "ĠĠ ĠĠ"),
)


def tiny_tokenizer(*, extra_tokens: Sequence[str] = (), chat_template: str = CHATML_TEMPLATE) -> TokenizerSpec:
    """The tokenizer, with `extra_tokens` (in byte spelling) behind its own; no merge leads to those, so no text is encoded to them."""
    special = (*_CONTROL, *_ADDED)
    merged = tuple(merge.replace(" ", "") for merge in _MERGES)

    return TokenizerSpec(
        tokens=(*special, *byte_spelling(), *merged, *extra_tokens),
        merges=_MERGES,
        control_ids=tuple(range(len(_CONTROL))),
        added_ids=tuple(range(len(_CONTROL), len(special))),
        bos_id=1,
        eos_id=2,
        pad_id=2,
        unknown_id=0,
        chat_template=chat_template,
    )
