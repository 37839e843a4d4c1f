import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism.export.tiny_model import write_tiny_model
from prism.export.tiny_tokenizer import tiny_tokenizer
from prism.export.tokenizer_files import byte_spelling
from tests.export.bpe_reference import ReferenceTokenizer
from tests.export.engine_helpers import Engine

pytestmark = pytest.mark.engine

# No "<", so that no token that is matched whole comes about.
# Left out as well: numbers other than ASCII digits, and white space in a run before a digit (see `tokenizer_files.py`).
CHARACTERS = st.one_of(
    st.sampled_from(" \n\t\r'|>the andingstre0123456789.,;()[]{}"),
    st.characters(exclude_categories=["Cs", "Cn", "Co", "Nd", "Nl", "No", "Cc", "Z"], exclude_characters="<"),
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny_model(folder)

    return Engine(folder)


def test_every_byte_has_a_printable_spelling_of_its_own() -> None:
    spelling = byte_spelling()

    assert len(set(spelling)) == 256
    assert spelling[ord(" ")] == "Ġ"
    assert spelling[ord("\n")] == "Ċ"
    assert spelling[ord("a")] == "a"
    assert all(character.isprintable() for character in spelling)


@settings(max_examples=300, deadline=None)
@given(st.text(CHARACTERS, min_size=1, max_size=40).filter(lambda text: not re.search(r"\s\s\d", text)))
def test_ids_are_those_of_the_trained_split(engine: Engine, text: str) -> None:
    assert engine.encode(text) == ReferenceTokenizer(tiny_tokenizer()).encode(text)


@settings(max_examples=200, deadline=None)
@given(
    # A control token is no text, and hypothesis knows the names of ours from the code.
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40).filter(
        lambda text: "<|" not in text
    )
)
def test_any_text_comes_back_as_it_was(engine: Engine, text: str) -> None:
    assert engine.decode(engine.encode(text)) == text


@pytest.mark.parametrize("text", ["1", " 12", "\n1.", "a 1 b 22 c\n3", "v1.2.3", "12345 + 67"])
def test_digits_stand_alone(engine: Engine, text: str) -> None:
    assert engine.encode(text) == ReferenceTokenizer(tiny_tokenizer()).encode(text)


def test_white_space_in_a_run_before_a_digit_is_cut_once_more_than_in_training(engine: Engine) -> None:
    ids = engine.encode("a  1")

    assert ids == [*engine.encode("a"), *engine.encode(" "), *engine.encode(" "), *engine.encode("1")]
    assert len(ReferenceTokenizer(tiny_tokenizer()).encode("a  1")) == 3


@pytest.mark.parametrize("character", [chr(code) for code in range(0x110000) if chr(code).isspace()])
def test_white_space_of_every_kind_comes_back(engine: Engine, character: str) -> None:
    for text in (character * 3, f"{character}\r\f:", f"x{character}{character}1", f"\u2028\r{character}{character}y"):
        assert engine.decode(engine.encode(text)) == text


@pytest.mark.parametrize("run", [" ", "\n", " \t\n", " 1", "! ", "a", "\u3000", "\xa0a"])
def test_long_runs_are_encoded_without_ending_the_process(engine: Engine, run: str) -> None:
    text = run * (300_000 // len(run))

    assert engine.decode(engine.encode(text)) == text


def test_control_tokens_are_one_id_and_decode_to_nothing(engine: Engine) -> None:
    ids = engine.encode("<|im_start|>a<|im_end|>")

    assert (ids[0], ids[-1], len(ids)) == (1, 2, 3)
    assert engine.decode(ids) == "a"
