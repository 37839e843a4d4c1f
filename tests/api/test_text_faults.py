"""NUL and half surrogates are found wherever they stand, and the field is named."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.api.errors import ApiError
from prism.api.json_body import decode_body
from prism.api.text_faults import find_lone_surrogate, find_nul
from tests.api.cost import assert_cheap

MARK = "\0"


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"messages": [{"role": "user"}, {}, {"role": "user", "content": MARK}]}, "messages[2].content"),
        ({"messages": [{"content": [{"text": "a, [b] {c}"}, {"text": 'q"\\' + MARK}]}]}, "messages[0].content[1].text"),
        ({"tools": [{"function": {"parameters": {"properties": {"x": {"enum": ["a", MARK]}}}}}]},
         "tools[0].function.parameters.properties.x.enum[1]"),
        ({"stop": [MARK]}, "stop[0]"),
        ({"a": {"b": 1, "c": [[], {}]}, "d": MARK}, "d"),
        ({"a": {MARK: 1}}, "a"),
        ({MARK: 1}, None),
        ({"k\\\"ey": {"x": MARK}}, "k____ey.x"),
    ],
)  # fmt: skip
def test_the_field_is_named_by_its_path(value: object, field: str | None) -> None:
    fault = find_nul(json.dumps(value).encode())

    assert fault is not None
    assert fault.field == field


def test_white_space_between_tokens_does_not_matter() -> None:
    fault = find_nul(json.dumps({"a": [{"b": MARK}]}, indent=4).replace(":", " :\t").encode())

    assert fault is not None
    assert fault.field == "a[0].b"


def test_the_offset_is_that_of_the_escape() -> None:
    fault = find_nul(rb'{"a":"\\\u0000"}')

    assert fault is not None
    assert fault.offset == 8


@given(st.text(st.sampled_from('\\u0dD8e"n{}[],:ud83dDe00\0')))
def test_a_nul_is_found_exactly_when_the_text_holds_one(text: str) -> None:
    assert (find_nul(json.dumps({"text": text}).encode()) is not None) == ("\0" in text)


@given(st.lists(st.sampled_from(["\\", "u", "a", "\ud83d", "\ude00", "\udbff", "\udc00", "ud83d", '"', "\n", "😀"])))
def test_a_half_pair_is_found_exactly_when_the_text_holds_one(pieces: list[str]) -> None:
    # Escaped, two halves side by side are one character, as they are to every JSON parser.
    body = json.dumps({"text": "".join(pieces)})

    try:
        json.loads(body)["text"].encode()
        is_whole = True
    except UnicodeEncodeError:
        is_whole = False

    assert (find_lone_surrogate(body.encode()) is None) == is_whole


@given(st.lists(st.sampled_from([r"\ud83d\ude00", r"\udbff\udfff", "a", r"\\", r"\"", "ud83d"])), st.integers(0, 80))
def test_near_any_byte_of_whole_pairs_there_is_no_half(pieces: list[str], near: int) -> None:
    assert find_lone_surrogate(f'{{"text":"{"".join(pieces)}"}}'.encode(), near=near) is None


@pytest.mark.parametrize("half", [r"\ud83d", r"\ude00"])
@pytest.mark.parametrize("before", ["", r"\ud83d\ude00" * 50, r"\\" * 9])
@pytest.mark.parametrize("after", ["", "x", "x" * 5, "x" * 50, r"\ud83d\ude00", r"\n" * 9])
def test_a_half_is_found_where_the_decoder_gave_up(before: str, half: str, after: str) -> None:
    body = f'{{"text":"{before}{half}{after}"}}'.encode()

    with pytest.raises(ApiError, match="half of a surrogate pair") as caught:
        decode_body(body, msgspec.json.Decoder(dict[str, str]))

    assert caught.value.param == "text"
    assert f"(byte {9 + len(before)})" in caught.value.message


def test_behind_the_first_megabytes_no_field_is_named() -> None:
    body = b'{"a":"' + b"x" * (5 << 20) + rb'\u0000"}'
    fault = find_nul(body)

    assert fault is not None
    assert (fault.field, fault.offset) == (None, len(body) - 8)


def test_a_tangled_body_costs_no_more_than_the_search() -> None:
    body = b'{"a":[' + b'"b",' * 2_500_000 + rb'"\u0000"]}'
    fault = find_nul(body)

    assert fault is not None
    assert fault.field is None
    assert_cheap(lambda: find_nul(body))
