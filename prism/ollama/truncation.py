"""Whether the Ollama daemon has cut a prompt to its window (`num_ctx`) without a word. Used by the handlers of chats and completions. Pure.

Daemons since 0.12.6 are asked to refuse instead, which is certain. Older ones cut; what can be seen then is that they read fewer tokens
than the prompt must have: no tokenizer in use makes fewer tokens than there are words between blanks, and characters of scripts without
blanks are seldom more than two to a token. So a prompt that lost a third is noticed, one that lost a little is not, and one that is whole
is not suspected, unless a very old daemon tells only the tokens that it had not kept from the turn before.
"""

import re
from collections.abc import Iterable
from typing import Final

_WORD: Final = re.compile(r"\S+")
_UNDIVIDED: Final = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_CHARACTERS_PER_TOKEN: Final = 4
# The smallest window that a daemon chooses by itself is 2,048; what is far below it is not cut.
_NOT_CUT_BELOW: Final = 512
# Templates and tokenizers have their oddities.
_MARGIN: Final = 0.9


def least_tokens(texts: Iterable[str]) -> int:
    """Return a number of tokens that these texts certainly have. Linear in their length."""
    return sum(map(_least_tokens, texts))


def looks_cut(least: int, prompt_tokens: int | None) -> bool:
    """Say whether a prompt of at least so many tokens was cut, if the daemon read so many. None: it did not tell."""
    return prompt_tokens is not None and least >= _NOT_CUT_BELOW and prompt_tokens < _MARGIN * least


def _least_tokens(text: str) -> int:
    words = sum(1 for _ in _WORD.finditer(text))

    if text.isascii():
        return words

    return max(words, sum(1 for _ in _UNDIVIDED.finditer(text)) // _CHARACTERS_PER_TOKEN)
