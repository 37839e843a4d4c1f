"""The grammar of an answer that has to be JSON, thinking included. Called by the chat handler; pure.

One grammar covers the whole answer, so that the engine follows it from the first token: thinking as long as the model likes, in its own
tags, and behind it the JSON. JSON is written as Python does, `{"a": 1, "b": [2]}`: white space that a grammar leaves free is where a model
that is at a loss runs on for ever.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ipc.messages import Guidance, GuidanceKind
from prism.chat.reasoning_tags import TagPair

# Text that can only be written in one way is still sampled token by token: the engine's own way of writing it at once (onnxruntime-genai
# 0.18) breaks characters that are spread over several tokens.
_HEADER: Final = '%llguidance {"no_forcing": true}\n'
_LAYOUT: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class GrammarWords:
    """Writes texts and JSON as parts of a grammar, for one model.

    special_ids: texts that the model's tokenizer has as one control token each, and their ids: no other token can stand for them.
    """

    def __init__(self, special_ids: Mapping[str, int]) -> None:
        self._special_ids = special_ids
        self._longest_first = sorted(special_ids, key=len, reverse=True)

    def is_special(self, text: str) -> bool:
        return text in self._special_ids

    def text(self, text: str) -> str:
        """Return the part that is exactly this text, control tokens where it holds their texts."""
        parts: list[str] = []
        plain = ""
        at = 0

        while at < len(text):
            token = next((token for token in self._longest_first if text.startswith(token, at)), None)

            if token is None:
                plain += text[at]
                at += 1
                continue

            parts += [*_quoted(plain), f"<[{self._special_ids[token]}]>"]
            plain = ""
            at += len(token)

        return " ".join([*parts, *_quoted(plain)])

    def until(self, name: str, closing: str) -> tuple[str, str]:
        """Return a part that is any text up to and with `closing`, and the rules that it needs. name: of a rule, unlike all others."""
        if self.is_special(closing):
            return f"/(?s:.*)/ {self.text(closing)}", ""

        return name, f"{name}[lazy]: {self.lazy(closing)}\n"

    def lazy(self, closing: str) -> str:
        """Return the expression for any text up to and with `closing`, which is no control token; for a rule that is marked as lazy."""
        return f"/(?s:.*){_escaped(closing)}/"


def json_part(schema: Mapping[str, object]) -> str:
    """Return the part that is JSON which fits a schema of `prism.api.schema_rewriting`."""
    return "%json " + json.dumps({**schema, "x-guidance": _LAYOUT})


def thinking_pairs(pairs: Sequence[TagPair], template_text: str, special: Collection[str]) -> tuple[TagPair, ...]:
    """Return the tags in which this model may think: those that its template or its tokenizer knows.

    pairs: that an answer is searched for.
    """
    return tuple(
        pair
        for pair in pairs
        if pair.opening in special
        or pair.opening in template_text
        or (pair.closing.startswith("</") and pair.closing in template_text)
    )


def answer_grammar(
    rule: str, rules: str, *, words: GrammarWords, pairs: Sequence[TagPair], opened: TagPair | None
) -> Guidance:
    """Return the grammar of an answer, as a constraint.

    rule, rules: the answer proper and the rules that it needs.
    pairs: tags in which the model may think first. opened: the pair that the prompt has opened; thinking goes on then until it is closed.
    """
    start, thinking_rules = _thinking(words, pairs, opened)
    return Guidance(GuidanceKind.LARK, f"{_HEADER}start: {start}answer\nanswer: {rule}\n{thinking_rules}{rules}")


def _thinking(words: GrammarWords, pairs: Sequence[TagPair], opened: TagPair | None) -> tuple[str, str]:
    """What comes before the answer, with a space behind it, and the rules that it needs."""
    if opened is not None:
        part, rules = words.until("opened", opened.closing)
        return f"{part} /\\n{{0,2}}/ {_answer_opening(words, (opened, *pairs))}", rules

    if not pairs:
        return "", ""

    choices: list[str] = []
    all_rules = ""

    for number, pair in enumerate(pairs):
        part, rules = words.until(f"thought{number}", pair.closing)
        choices.append(f"{words.text(pair.opening)} {part}")
        all_rules += rules

    thinking = f"thinking: {' | '.join(choices)}\n"
    return f"(thinking /\\n{{0,2}}/)? {_answer_opening(words, pairs)}", thinking + all_rules


def _answer_opening(words: GrammarWords, pairs: Sequence[TagPair]) -> str:
    openings = dict.fromkeys(opening for pair in pairs for opening in pair.answer_openings)
    return f"({' | '.join(map(words.text, openings))})? " if openings else ""


def _quoted(text: str) -> list[str]:
    return [json.dumps(text)] if text else []


def _escaped(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter == " " else f"\\x{{{ord(letter):x}}}" for letter in text)
