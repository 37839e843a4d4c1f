"""The words of the image model that tests make for themselves, and what each of them does in its graphs. Pure.

A token is known to the graphs by a row of `CHANNELS` numbers. That row is the model's hidden state and also what it keeps of each position,
so everything that the model remembers of a conversation is in there.
"""

from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from prism.export.tokenizer_files import TokenizerSpec, byte_spelling

CHANNELS: Final = 16


class Channel(IntEnum):
    """What the numbers of a position say. Those that no name is given to are 0."""

    RED = 0
    GREEN = 1
    BLUE = 2
    IS_PICTURE = 3
    ENDS_PICTURE = 4
    BEGINS_TURN = 5
    IS_COLOUR_WORD = 6
    ASKS_FOR_EVER = 7
    KIND = 8  # a `Kind`


class Kind(IntEnum):
    """Tokens that something particular follows."""

    OTHER = 0
    BEGINNING = 1
    SEE = 2
    NOTHING = 3
    FULL_STOP = 4
    COLOUR = 5


COLOURS: Final = MappingProxyType(
    {
        " red": (1, 0, 0),
        " green": (0, 1, 0),
        " blue": (0, 0, 1),
        " white": (1, 1, 1),
        " black": (0, 0, 0),
        " yellow": (1, 1, 0),
    }
)
BEGINNING, SEE, NOTHING, FOR_EVER, FULL_STOP = " I", " see", " nothing", " forever", "."

_CONTROL = (
    "<pad>",
    "<s>",
    "<|im_end|>",
    "<|im_start|>",
    "<|vision_start|>",
    "<|image_pad|>",
    "<|vision_end|>",
    "<|x|>",
)
PAD_ID, BOS_ID, END_ID, TURN_ID, PICTURE_START_ID, PICTURE_ID, PICTURE_END_ID = range(7)

TEMPLATE: Final = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}{{ '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@dataclass(frozen=True, slots=True)
class SeeingTokens:
    """tokenizer: what goes into its files. ids: the token of each word that the model can say, and of `FOR_EVER`, which it obeys."""

    tokenizer: TokenizerSpec
    ids: dict[str, int]


def seeing_tokens() -> SeeingTokens:
    """Every byte is a token, so any text can be encoded; of words there are just the ones of this file."""
    spelling = byte_spelling()
    tokens = [*_CONTROL, *spelling]
    merges: list[str] = []
    ids = {FULL_STOP: tokens.index(FULL_STOP)}

    for word in (BEGINNING, SEE, NOTHING, FOR_EVER, *COLOURS):
        spelled = "".join(spelling[byte] for byte in word.encode())

        # One letter more with each merge, from the left: no other text leads to these tokens.
        for end in range(2, len(spelled) + 1):
            if spelled[:end] not in tokens:
                tokens.append(spelled[:end])
                merges.append(f"{spelled[: end - 1]} {spelled[end - 1]}")

        ids[word] = tokens.index(spelled)

    return SeeingTokens(_spec(tokens, merges), ids)


def _spec(tokens: list[str], merges: list[str]) -> TokenizerSpec:
    return TokenizerSpec(
        tokens=tuple(tokens),
        merges=tuple(merges),
        control_ids=tuple(range(len(_CONTROL))),
        added_ids=(),
        bos_id=BOS_ID,
        eos_id=END_ID,
        pad_id=PAD_ID,
        unknown_id=PAD_ID,
        chat_template=TEMPLATE,
    )
