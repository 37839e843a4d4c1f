"""A prompt in pieces is encoded as one text: one BOS, no foreign tokens, no spaces that nobody wrote."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_worker.errors import RequestFault
from gpu_worker.prompt import PromptEncoder, PromptRules
from ipc.messages import RejectCode

BOS, EOS, HEADER, SPACE = 1_000, 1_001, 1_002, 1_003
NAMES = {"<s>": BOS, "</s>": EOS, "<|user|>": HEADER}
RULES = PromptRules(bos_id=BOS, eos_ids={EOS}, added_ids={BOS, EOS, HEADER}, wants_bos=True)


def tokenizer(
    *, adds_bos: bool = False, adds_eos: bool = False, adds_space: bool = False
) -> Callable[[str], list[int]]:
    """Return an encoder by character that knows the three names and behaves in one of the ways that are out there."""

    def encode(text: str) -> list[int]:
        text.encode()
        ids: list[int] = []
        is_new_text = True

        while text:
            name = next((name for name in NAMES if text.startswith(name)), None)

            if name is not None:
                ids.append(NAMES[name])
                text = text[len(name) :]
                is_new_text = True
                continue

            if is_new_text and adds_space:
                ids.append(SPACE)

            is_new_text = False
            ids.append(ord(text[0]))
            text = text[1:]

        return [*([BOS] if adds_bos else []), *ids, *([EOS] if adds_eos else [])]

    return encode


BEHAVIOURS = [
    pytest.param({}, id="plain"),
    pytest.param({"adds_bos": True}, id="adds BOS"),
    pytest.param({"adds_bos": True, "adds_eos": True}, id="adds BOS and EOS"),
    pytest.param({"adds_space": True}, id="adds a space"),
    pytest.param({"adds_bos": True, "adds_space": True}, id="adds BOS and a space"),
]


def without_space(ids: list[int]) -> list[int]:
    return [token for token in ids if token != SPACE]


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (("ab",), [BOS, 97, 98]),
        (("<s>ab",), [BOS, 97, 98]),
        (("<s>", "ab"), [BOS, 97, 98]),
        (("<s>", "<s>ab"), [BOS, 97, 98]),
        (("", "a", "", "b"), [BOS, 97, 98]),
        (("<|user|>", "a", "<|user|>"), [BOS, HEADER, 97, HEADER]),
        (("a</s>", "b"), [BOS, 97, EOS, 98]),
        (("a", "<s>b"), [BOS, 97, BOS, 98]),
        (("a</s>",), [BOS, 97, EOS]),
        (("<s>",), [BOS]),
    ],
)
def test_bos_is_there_once_and_nothing_else_is_added(
    behaviour: dict[str, bool], pieces: tuple[str, ...], expected: list[int]
) -> None:
    assert without_space(PromptEncoder(tokenizer(**behaviour), RULES).encode(pieces)) == expected


def test_a_model_that_wants_no_bos_gets_none() -> None:
    rules = PromptRules(bos_id=BOS, eos_ids={EOS}, added_ids={BOS}, wants_bos=False)
    assert PromptEncoder(tokenizer(), rules).encode(["ab"]) == [97, 98]


def test_a_model_without_bos_gets_none() -> None:
    rules = PromptRules(bos_id=None, eos_ids={EOS}, added_ids=(), wants_bos=True)
    assert PromptEncoder(tokenizer(), rules).encode(["ab"]) == [97, 98]


def test_a_bos_that_the_template_wrote_is_kept_when_none_is_wanted() -> None:
    rules = PromptRules(bos_id=BOS, eos_ids={EOS}, added_ids={BOS}, wants_bos=False)
    assert PromptEncoder(tokenizer(), rules).encode(["<s>ab"]) == [BOS, 97, 98]


def test_a_border_inside_a_control_token_leaves_it_text() -> None:
    ids = PromptEncoder(tokenizer(), RULES).encode(["<|user|>hi<|us", "er|>x"])
    assert ids == [BOS, HEADER, *map(ord, "hi<|user|>x")]


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_a_border_inside_text_adds_no_space(behaviour: dict[str, bool]) -> None:
    encoder = PromptEncoder(tokenizer(**behaviour), RULES)
    assert encoder.encode(["ab", "cd", "e"]) == encoder.encode(["abcde"])


def test_a_piece_after_a_control_token_begins_a_text_as_in_one_encoding() -> None:
    encoder = PromptEncoder(tokenizer(adds_space=True), RULES)
    assert encoder.encode(["<|user|>", "ab"]) == encoder.encode(["<|user|>ab"]) == [BOS, HEADER, SPACE, 97, 98]


def test_an_anchor_that_melts_into_the_text_is_not_cut_off() -> None:
    def melting(text: str) -> list[int]:
        return [2_000, *map(ord, text[2:])] if text.startswith("\n\n") else [SPACE, *map(ord, text)]

    encoder = PromptEncoder(melting, RULES)
    assert encoder.encode(["a", "\nb"]) == [BOS, SPACE, 97, SPACE, 10, 98]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8), max_size=6))
def test_pieces_of_text_make_the_same_ids_as_the_text(pieces: list[str]) -> None:
    text = "".join(pieces)
    encoder = PromptEncoder(tokenizer(adds_bos=True, adds_space=True), RULES)

    if any(name in text for name in NAMES):
        return

    if not text:
        with pytest.raises(RequestFault):
            encoder.encode(pieces)
    else:
        assert encoder.encode(pieces) == encoder.encode([text])


@pytest.mark.parametrize("pieces", [(), ("",), ("", "")])
def test_an_empty_prompt_is_refused(pieces: tuple[str, ...]) -> None:
    with pytest.raises(RequestFault, match="empty") as caught:
        PromptEncoder(tokenizer(adds_bos=True), RULES).encode(pieces)

    assert caught.value.code is RejectCode.INVALID_REQUEST


@pytest.mark.parametrize("piece", ["a\0b", "a\ud800"])
def test_text_that_the_engine_would_cut_or_choke_on_is_refused(piece: str) -> None:
    with pytest.raises(RequestFault):
        PromptEncoder(tokenizer(), RULES).encode(["ok", piece])


def test_text_that_the_tokenizer_has_no_token_for_is_refused() -> None:
    def encode(text: str) -> list[int]:
        return [-1 if character == "é" else ord(character) for character in text]

    with pytest.raises(RequestFault, match="no token"):
        PromptEncoder(encode, RULES).encode(["ok", "é"])
