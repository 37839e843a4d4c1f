"""The bytes of tokens, read from the kinds of tokenizer.json there are."""

import pytest

from gpu_worker.json_files import JsonObject
from gpu_worker.vocabulary import UnknownDecoder, Vocabulary, read_vocabulary

SENTENCEPIECE: JsonObject = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}


def read(decoder: object, tokens: list[str], shown: dict[int, str] | None = None) -> Vocabulary:
    tokenizer: JsonObject = {
        "decoder": decoder,
        "model": {"vocab": {token: token_id for token_id, token in enumerate(tokens)}},
    }
    return read_vocabulary(tokenizer, shown or {})


def pieces(vocabulary: Vocabulary, count: int) -> tuple[bytes, ...]:
    return tuple(vocabulary.piece(token_id) for token_id in range(count))


def test_byte_level_tokens_stand_for_bytes() -> None:
    found = read({"type": "ByteLevel"}, ["Ġthe", "Ċ", "ĉ", "Ã", "©", "!", "ÿ", "Ā"])
    assert pieces(found, 8) == (b" the", b"\n", b"\t", b"\xc3", b"\xa9", b"!", b"\xff", b"\0")
    assert found.leading_spaces == 0


def test_every_byte_has_exactly_one_character_in_the_byte_alphabet() -> None:
    # Without the characters that the alphabet avoids, which are one byte long by themselves.
    characters = [chr(number) for number in range(0x144) if chr(number) > " " and number != 0x7F]
    found = pieces(read({"type": "ByteLevel"}, characters), len(characters))
    assert sorted(piece for piece in found if len(piece) == 1) == [bytes([byte]) for byte in range(256)]


def test_a_token_outside_the_byte_alphabet_stands_for_itself() -> None:
    assert read({"type": "ByteLevel"}, ["<｜tool▁sep｜>"]).piece(0) == "<｜tool▁sep｜>".encode()


def test_sentencepiece_tokens_have_spaces_and_bytes() -> None:
    found = read(SENTENCEPIECE, ["▁the", "<0x0A>", "<0xe2>", "▁▁", "<0xZZ>", "é"])
    assert pieces(found, 6) == (b" the", b"\n", b"\xe2", b"  ", b"<0xZZ>", "é".encode())
    assert found.leading_spaces == 1


def test_without_a_strip_step_no_leading_space_is_dropped() -> None:
    gemma = {"type": "Sequence", "decoders": [*list(SENTENCEPIECE["decoders"])[:3]]}  # type: ignore[call-overload]
    assert read(gemma, ["▁the"]).leading_spaces == 0


@pytest.mark.parametrize(
    ("decoder", "leading_spaces"),
    [
        ({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}, 1),
        ({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}, 1),
        ({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"}, 0),
        ({"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}, 1),
        ({"type": "Metaspace", "replacement": "▁", "add_prefix_space": False}, 0),
        ({"type": "Metaspace"}, 1),
    ],
)
def test_metaspace_is_read_in_its_old_and_new_spelling(decoder: JsonObject, leading_spaces: int) -> None:
    found = read(decoder, ["▁a"])
    assert (found.piece(0), found.leading_spaces) == (b" a", leading_spaces)


def test_a_unigram_vocabulary_is_a_list_of_tokens_with_scores() -> None:
    tokenizer: JsonObject = {
        "decoder": SENTENCEPIECE,
        "model": {"type": "Unigram", "vocab": [["<unk>", 0.0], ["▁hi", -1.5]]},
    }
    assert pieces(read_vocabulary(tokenizer, {}), 2) == (b"<unk>", b" hi")


def test_what_a_token_shows_goes_before_what_the_vocabulary_says() -> None:
    found = read({"type": "ByteLevel"}, ["x", "y", "Ġ"], {0: "", 3: "<|a b|>", 4: "▁"})
    assert pieces(found, 5) == (b"", b"y", b" ", b"<|a b|>", "▁".encode())


def test_ids_without_a_token_make_no_text() -> None:
    found = read({"type": "ByteLevel"}, ["a"], {3: "<x>"})
    assert [found.piece(token) for token in (-1, 0, 1, 2, 3, 4, 10**9)] == [b"", b"a", b"", b"", b"<x>", b"", b""]


@pytest.mark.parametrize(
    "decoder",
    [
        None,
        {},
        {"type": "WordPiece"},
        {"type": "CTC"},
        {"type": "BPEDecoder", "suffix": "</w>"},
        {"type": "Sequence", "decoders": []},
        {"type": "Sequence", "decoders": [{"type": "ByteLevel"}, {"type": "Fuse"}]},
        {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"Regex": "x+"}, "content": " "}]},
        {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": ""}, "content": " "}]},
        {"type": "Sequence", "decoders": [{"type": "Strip", "content": "x", "start": 1, "stop": 0}]},
        {"type": "Sequence", "decoders": [{"type": "Strip", "content": " ", "start": 1, "stop": 1}]},
    ],
)
def test_a_decoder_of_another_kind_is_unknown(decoder: object) -> None:
    with pytest.raises(UnknownDecoder):
        read(decoder, ["a"])


def test_a_vocabulary_of_another_shape_is_unknown() -> None:
    with pytest.raises(UnknownDecoder):
        read_vocabulary({"decoder": {"type": "ByteLevel"}, "model": {"vocab": "abc"}}, {})


def test_an_absurd_id_is_no_reason_to_fill_the_memory() -> None:
    assert read({"type": "ByteLevel"}, ["a"], {10**12: "<x>"}).piece(10**12) == b"<x>"


def test_lone_surrogates_in_a_token_do_no_harm() -> None:
    assert read(SENTENCEPIECE, ["\ud800"]).piece(0) == b"?"
