"""Pieces of a prompt with pictures become the one text that the engine's processor takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_worker.errors import RequestFault
from gpu_worker.picture_prompt import common_end, picture_prompt, spare_tokens, without_separator
from gpu_worker.tokenizer_files import AddedToken
from ipc.messages import RejectCode

SPARE = AddedToken(7, "<|spare|>", is_special=True)
OTHER = AddedToken(8, "<|other|>", is_special=True)


def test_one_piece_needs_no_separator() -> None:
    prompt = picture_prompt(["a[IMG]b"], ["[IMG]"], ())
    assert (prompt.text, prompt.separator, prompt.tail) == ("a[IMG]b", None, ("b",))
    assert without_separator([1, 7, 2], prompt) == [1, 7, 2]


def test_pieces_are_joined_by_a_token_that_none_of_them_has() -> None:
    pieces = ["a[IMG]<", "|spare|> ", "<|spare|>", "", "b"]
    prompt = picture_prompt(pieces, ["[IMG]"], [SPARE, OTHER])
    assert prompt.separator == OTHER
    assert prompt.text.split("<|other|>") == [piece for piece in pieces if piece]
    assert prompt.tail == ("<", "|spare|> ", "<|spare|>", "b")
    assert without_separator([1, 8, 2, 8, 3], prompt) == [1, 2, 3]


def test_without_such_a_token_the_request_is_refused() -> None:
    for spare in ((), (SPARE,)):
        with pytest.raises(RequestFault, match="keep them apart") as caught:
            picture_prompt(["[IMG]<|spare|>", "b"], ["[IMG]"], spare)

        assert caught.value.code is RejectCode.INVALID_REQUEST


def test_numbered_markers_are_looked_for_in_order() -> None:
    markers = ["<|image_1|>", "<|image_2|>"]
    assert picture_prompt(["<|image_1|>x<|image_2|>y"], markers, ()).tail == ("y",)

    for wrong in ("<|image_2|><|image_1|>", "<|image_1|>", "<|image_1|><|image_2|><|image_2|>", ""):
        with pytest.raises(RequestFault):
            picture_prompt([wrong], markers, ())


def test_tokens_that_mean_something_are_not_spare() -> None:
    texts = ["<|x|>", "<|vision_pad|>", "<image_soft_token>", "[IMG_END]", "<pad>", "<|audio_bos|>", "<>", "word"]
    added = [AddedToken(number, text, is_special=text != "word") for number, text in enumerate([*texts, "<eos>"])]
    assert [token.content for token in spare_tokens(added, used_ids=[len(texts)])] == ["<|x|>"]


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_the_common_end_is_as_long_as_can_be(first: list[int], second: list[int], end: list[int]) -> None:
    length = common_end(first + end, second + end)
    assert length >= len(end)
    assert (first + end)[len(first + end) - length :] == (second + end)[len(second + end) - length :]
    assert common_end(first, []) == 0
