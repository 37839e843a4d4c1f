"""NUL and half surrogates are found wherever they stand, and the field is named."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.api.text_faults import find_lone_surrogate, find_nul

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


def test_a_tangled_body_costs_no_more_than_the_search() -> None:
    body = b'{"a":[' + b'"b",' * 2_500_000 + rb'"\u0000"]}'
    begun = time.process_time()
    fault = find_nul(body)

    assert fault is not None
    assert fault.field is None
    assert time.process_time() - begun < 0.3
