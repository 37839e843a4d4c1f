"""What the image model of tests says after what, as numbers. Pure; read by `seeing_decoder.py`.

Left to itself it says " I see", the colour of each picture or " nothing", a full stop, and ends; asked to go on for ever it begins again
after each full stop. Much smaller numbers, which never win by themselves, lead it through whatever a grammar leaves of the vocabulary: no
white space without need, the first letter of the colour that it sees, and an end to whatever can be ended.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism.export.seeing_tokens import BEGINNING, COLOURS, END_ID, FULL_STOP, NOTHING, SEE, Kind, SeeingTokens

Floats = npt.NDArray[np.float32]

_SURE = 20.0
_SURER = 60.0
_ENDING = 4.5
_NEVER = -50.0
_LIKELY = {'"': 3.0, "}": 4.0, "]": 4.0, ",": 2.0, ":": 2.0, "0": 1.0, "Ġ": -5.0, "ĉ": -5.0, "Ċ": -5.0, "č": -5.0}
# Of two colours with one letter the brighter one is meant.
_LETTERS = {" red": "r", " green": "g", " blue": "b", " white": "w", " yellow": "y"}


@dataclass(frozen=True, slots=True)
class Scores:
    """following, again: [kinds, vocabulary]: after a token of this kind; more of it when it was asked to go on for ever.

    asks_colour: [kinds, 1]: 1 where a colour comes next, if there is a picture left.
    colour_weights [3, vocabulary], colour_bias [vocabulary]: from a mean colour to its nearest name.
    letter_weights, letter_bias: to the first letter of that name.
    """

    following: Floats
    again: Floats
    asks_colour: Floats
    colour_weights: Floats
    colour_bias: Floats
    letter_weights: Floats
    letter_bias: Floats


def scores_of(tokens: SeeingTokens) -> Scores:
    vocabulary = len(tokens.tokenizer.tokens)
    asks = np.zeros((len(Kind), 1), np.float32)
    asks[[Kind.SEE, Kind.COLOUR]] = 1
    again = np.zeros((len(Kind), vocabulary), np.float32)
    again[Kind.FULL_STOP, tokens.ids[BEGINNING]] = _SURER
    words = {name: tokens.ids[name] for name in COLOURS}
    letters = {name: tokens.tokenizer.tokens.index(letter) for name, letter in _LETTERS.items()}

    colour_weights, colour_bias = _nearest(vocabulary, words, 2 * _SURE, floor=_NEVER, lift=0.0)
    letter_weights, letter_bias = _nearest(vocabulary, letters, 4.0, floor=0.0, lift=0.5)

    return Scores(
        following=_following(tokens, vocabulary),
        again=again,
        asks_colour=asks,
        colour_weights=colour_weights,
        colour_bias=colour_bias,
        letter_weights=letter_weights,
        letter_bias=letter_bias,
    )


def _following(tokens: SeeingTokens, vocabulary: int) -> Floats:
    ids = tokens.ids
    table = np.zeros((len(Kind), vocabulary), np.float32)
    table[:, END_ID] = _ENDING

    for text, score in _LIKELY.items():
        table[:, tokens.tokenizer.tokens.index(text)] = score

    table[Kind.OTHER, ids[BEGINNING]] = _SURE
    then = {
        Kind.BEGINNING: ids[SEE],
        Kind.SEE: ids[NOTHING],
        Kind.NOTHING: ids[FULL_STOP],
        Kind.COLOUR: ids[FULL_STOP],
        Kind.FULL_STOP: END_ID,
    }

    for kind, token in then.items():
        table[kind, token] = _SURE

    return table


def _nearest(
    vocabulary: int, names: dict[str, int], steep: float, *, floor: float, lift: float
) -> tuple[Floats, Floats]:
    """Weights and bias by which the token of the nearest colour scores best: 2xp - |p|^2 is largest where |x - p| is smallest."""
    weights = np.zeros((3, vocabulary), np.float32)
    bias = np.full(vocabulary, floor, np.float32)

    for name, token in names.items():
        colour = np.asarray(COLOURS[name], np.float32)
        weights[:, token] = steep * colour
        bias[token] = lift - steep / 2 * float(colour @ colour)

    return weights, bias
