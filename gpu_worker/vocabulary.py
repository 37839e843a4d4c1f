"""The bytes of each token, read from tokenizer.json. Pure; made once while loading, asked by `detokenizer.py` for every token.

A token is a run of bytes, not of characters: an emoji may be spread over four tokens. Hence bytes here, and one decoder over
the bytes of all tokens. What kinds there are (the `decoder` of tokenizer.json):

* ByteLevel: each character of a token stands for one byte, by the alphabet that GPT-2 introduced.
* Replace, ByteFallback, Fuse, Strip in a Sequence: text in which `▁` stands for a space and `<0x0A>` for a byte (SentencePiece).
* Metaspace: the same without byte tokens.
"""

from collections.abc import Callable, Mapping

from gpu_worker.json_files import JsonObject, is_integer, is_list, is_object, section


class UnknownDecoder(Exception):
    """tokenizer.json describes a decoder that this module does not know. The engine's own decoder is used then."""


class Vocabulary:
    """The bytes of a token, worked out when it is first asked for: a vocabulary has up to 250,000 tokens and an answer uses a few hundred.

    tokens: how each token is written in the file, by id. shown: the text of tokens whose text is not what the file says.
    leading_spaces: how many spaces at the very start of a text are of the tokenizer's making and no part of it.
    """

    def __init__(
        self,
        tokens: Mapping[int, str],
        to_bytes: Callable[[str], bytes],
        shown: Mapping[int, str],
        leading_spaces: int,
    ) -> None:
        self.leading_spaces = leading_spaces
        self._tokens = tokens
        self._to_bytes = to_bytes
        self._known = {token_id: text.encode(errors="replace") for token_id, text in shown.items()}

    def piece(self, token_id: int) -> bytes:
        """Return the token's bytes; none for a token that makes no text. Models have more rows than tokens: those make no text either."""
        piece = self._known.get(token_id)

        if piece is None:
            token = self._tokens.get(token_id)
            piece = self._known[token_id] = b"" if token is None else self._to_bytes(token)

        return piece


def read_vocabulary(tokenizer: JsonObject, shown: Mapping[int, str]) -> Vocabulary:
    """Read how tokens become text.

    shown: the text of each token whose text is not what the vocabulary says: added tokens, and silent ones, whose text is empty.
    Raises UnknownDecoder.
    """
    to_bytes, leading_spaces = _decoder(section(tokenizer, "decoder"))
    return Vocabulary(_tokens(section(tokenizer, "model")), to_bytes, shown, leading_spaces)


def _tokens(model: JsonObject) -> dict[int, str]:
    vocabulary = model.get("vocab")

    if is_object(vocabulary):
        return {token_id: token for token, token_id in vocabulary.items() if is_integer(token_id)}

    if is_list(vocabulary):
        # Unigram: a list of [token, score], the id being the place in the list.
        return {
            token_id: entry[0]
            for token_id, entry in enumerate(vocabulary)
            if is_list(entry) and entry and isinstance(entry[0], str)
        }

    raise UnknownDecoder("tokenizer.json has no model.vocab")


def _decoder(decoder: JsonObject) -> tuple[Callable[[str], bytes], int]:
    """Return how a token becomes bytes, and how many leading spaces are dropped."""
    steps = [decoder]

    if decoder.get("type") == "Sequence":
        nested = decoder.get("decoders")
        steps = [step for step in nested if is_object(step)] if is_list(nested) else []

    kinds = [step.get("type") for step in steps]

    if kinds == ["ByteLevel"]:
        return _byte_level, 0

    if "ByteLevel" in kinds or not kinds:
        raise UnknownDecoder(f"decoder {kinds}")

    return _spaced_decoder(steps)


def _spaced_decoder(steps: list[JsonObject]) -> tuple[Callable[[str], bytes], int]:
    replacements: list[tuple[str, str]] = []
    has_byte_tokens = False
    leading_spaces = 0

    for step in steps:
        match step.get("type"):
            case "Replace":
                replacements.append(_replacement(step))
            case "ByteFallback":
                has_byte_tokens = True
            case "Fuse":
                pass
            case "Strip":
                leading_spaces += _stripped(step)
            case "Metaspace":
                replacements.append((_text(step.get("replacement", "▁")), " "))
                leading_spaces += 1 if _prepends_space(step) else 0
            case kind:
                raise UnknownDecoder(f"decoder {kind!r}")

    def to_bytes(token: str) -> bytes:
        if has_byte_tokens and (byte := _byte_token(token)) is not None:
            return byte

        for pattern, content in replacements:
            token = token.replace(pattern, content)

        return token.encode(errors="replace")

    return to_bytes, leading_spaces


def _replacement(step: JsonObject) -> tuple[str, str]:
    pattern = _text(section(step, "pattern").get("String"))

    if not pattern:
        raise UnknownDecoder("an empty pattern in a decoder")

    return pattern, _text(step.get("content"))


def _stripped(step: JsonObject) -> int:
    start, stop = step.get("start"), step.get("stop")

    if step.get("content") != " " or not is_integer(start) or stop != 0:
        raise UnknownDecoder(f"a Strip of {step.get('content')!r}, {start!r}, {stop!r}")

    return start


def _prepends_space(step: JsonObject) -> bool:
    scheme = step.get("prepend_scheme")
    return scheme != "never" if scheme is not None else step.get("add_prefix_space", True) is True


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise UnknownDecoder(f"{value!r} where a decoder needs a text")

    return value


def _byte_token(token: str) -> bytes | None:
    if len(token) != 6 or not token.startswith("<0x") or not token.endswith(">"):
        return None

    try:
        return bytes([int(token[3:5], 16)])
    except ValueError:
        return None


def _byte_alphabet() -> dict[str, int]:
    """Return the byte that each character stands for.

    Printable bytes stand for themselves; the others, which would be spaces and control characters, are moved in order to the characters
    from U+0100 on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + place): byte for place, byte in enumerate(hidden)}


_BYTE_OF = _byte_alphabet()


def _byte_level(token: str) -> bytes:
    try:
        return bytes([_BYTE_OF[character] for character in token])
    except KeyError:
        # Not written in that alphabet: an added token that also stands in the vocabulary.
        return token.encode(errors="replace")
