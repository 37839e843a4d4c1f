"""Bytes that are no JSON object of the right shape give a 400 with a clear sentence."""

import json

import msgspec
import pytest

from prism.api.errors import ApiError
from prism.api.json_body import decode_body
from prism.api.limits import MAX_JSON_TEXTS
from tests.api.cost import assert_cheap


class Sample(msgspec.Struct):
    text: str | None = None
    count: int | None = None
    ratio: float | None = None
    flag: bool | None = None


SAMPLE = msgspec.json.Decoder(Sample)


def refused(body: bytes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        decode_body(body, SAMPLE)

    assert caught.value.status == 400
    assert caught.value.code is None

    return caught.value


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "A JSON body is required."),
        (b"   ", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b'{"count":1} x', "trailing characters"),
        (b'{"count":1}{}', "trailing characters"),
        (b'{"count":1,}', "trailing comma"),
        (b"{'count':1}", "not valid JSON"),
        (b'{"count":01}', "not valid JSON"),
        (b"[]", "must be a JSON object, not a list"),
        (b"null", "must be a JSON object, not null"),
        (b'"text"', "must be a JSON object, not a string"),
        (b"7", "must be a JSON object, not an integer"),
        (b"true", "must be a JSON object, not a boolean"),
        (b'{"text":"\xff"}', "not valid UTF-8 (byte 9)"),
        (b'{"unknown":"\xff"}', "not valid UTF-8"),
        (b'{"text":"\xed\xa0\xbd"}', "not valid UTF-8"),
        (b"\xef\xbb\xbf{}", "not valid JSON"),
        ('{"count":1}'.encode("utf-16"), "not valid UTF-8"),
        (b'{"text":"a\x00b"}', "not valid JSON"),
        (b'{"text":"a\nb"}', "not valid JSON"),
        (b'{"unknown":NaN}', "not valid JSON"),
        (b"\x00" * 100, "not valid JSON"),
    ],
)
def test_what_is_not_a_json_object_is_refused_in_words(body: bytes, words: str) -> None:
    error = refused(body)

    assert words in error.message
    assert error.param is None


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
@pytest.mark.parametrize("field", [b"unknown", b"text"])
def test_endless_nesting_is_refused_not_a_server_error(opening: bytes, field: bytes) -> None:
    error = refused(b'{"' + field + b'":' + opening * 200_000)

    assert "nested too deeply" in error.message or error.param == "text"


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_endless_nesting_from_the_first_byte_is_refused(opening: bytes) -> None:
    refused(opening * 200_000)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("count", "NaN"),
        ("ratio", "NaN"),
        ("ratio", "Infinity"),
        ("ratio", "-Infinity"),
    ],
)
def test_nan_and_infinity_are_no_json(field: str, value: str) -> None:
    assert "not valid JSON" in refused(f'{{"{field}":{value}}}'.encode()).message


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("count", "3.9", "must be an integer or null, not a number with a fraction"),
        ("count", "5.0", "must be an integer"),
        ("count", "5e0", "must be an integer"),
        ("count", "true", "must be an integer or null, not a boolean"),
        ("count", '"7"', "must be an integer or null, not a string"),
        ("count", "1e999", "out of range"),
        ("count", "9" * 5_000, "out of range"),
        ("ratio", "true", "must be a number or null, not a boolean"),
        ("ratio", '"1"', "must be a number or null, not a string"),
        ("ratio", "1e999", "out of range"),
        ("ratio", "-1e999", "out of range"),
        ("ratio", "9" * 400, "out of range"),
        ("flag", '"false"', "must be true or false or null, not a string"),
        ("flag", "0", "must be true or false or null, not an integer"),
        ("text", "1", "must be a string or null, not an integer"),
        ("text", "{}", "must be a string or null, not an object"),
    ],
)
def test_types_are_strict_and_the_field_is_named(field: str, value: str, words: str) -> None:
    error = refused(f'{{"{field}":{value}}}'.encode())

    assert error.param == field
    assert error.message.startswith(f"'{field}' ")
    assert words in error.message


def test_an_integer_is_a_number() -> None:
    assert decode_body(b'{"ratio":1}', SAMPLE).ratio == 1.0


def test_unknown_fields_are_ignored() -> None:
    assert decode_body(b'{"unknown":{"a":[1,null,1e999]},"count":3}', SAMPLE).count == 3


def test_the_last_of_two_equal_keys_counts() -> None:
    assert decode_body(b'{"count":1,"count":2}', SAMPLE).count == 2


def test_pairs_of_surrogates_and_raw_utf8_are_text() -> None:
    assert decode_body(rb'{"text":"\ud83d\ude00"}', SAMPLE).text == "😀"
    assert decode_body('{"text":"漢字 😀"}'.encode(), SAMPLE).text == "漢字 😀"


@pytest.mark.parametrize("escape", [r"\ud83d", r"\ude00", r"\uD83D", r"\ude00\ud83d", r"\ud83d\ud83d\ude00"])
@pytest.mark.parametrize("field", ["text", "unknown"])
def test_half_a_surrogate_pair_is_refused_and_its_field_named(escape: str, field: str) -> None:
    error = refused(f'{{"count":1,"{field}":"a{escape} b"}}'.encode())

    assert error.param == field
    assert "surrogate" in error.message


@pytest.mark.parametrize("field", ["text", "unknown"])
def test_a_nul_is_refused_and_its_field_named(field: str) -> None:
    error = refused(f'{{"count":1,"{field}":"BANANA\\u0000 reply APPLE"}}'.encode())

    assert error.param == field
    assert "NUL" in error.message


def test_text_that_only_speaks_of_escapes_is_text() -> None:
    text = r"C strings end with \u0000, and \ud83d is half a pair; \\u0000"

    assert decode_body(json.dumps({"text": text}).encode(), SAMPLE).text == text


@pytest.mark.parametrize(
    "bomb",
    [
        b'{"unknown":[' + b"[]," * 3_000_000 + b"1]}",
        b'{"unknown":[' + b'{"a":1},' * 1_200_000 + b"1]}",
        b'{"unknown":"' + rb"\ud83d\ude00" * 800_000 + rb"\ud83d" + b'"}',
        b'{"text":"' + rb"\n" * 4_000_000 + rb"\u0000" + b'"}',
        b'{"ratio":' + b"9" * 10_000_000 + b"}",
    ],
    ids=["lists", "objects", "surrogates", "escapes", "digits"],
)
def test_ten_megabytes_are_cheap(bomb: bytes) -> None:
    assert_cheap(lambda: decode_body(bomb, SAMPLE))


def test_more_texts_than_any_request_has_are_refused_before_they_are_made() -> None:
    error = refused(b'{"unknown":[' + b'"a",' * 2 * MAX_JSON_TEXTS + b'"a"]}')

    assert f"more than {MAX_JSON_TEXTS} texts" in error.message
    assert error.param is None


def test_as_many_texts_as_are_allowed_are_read_whatever_is_in_them() -> None:
    for text in (rb'"\\"', rb'"\""', b'""'):
        body = b'{"unknown":[' + (text + b",") * (MAX_JSON_TEXTS - 4) + b'""],"text":"x"}'
        assert decode_body(body, SAMPLE).text == "x"


def test_quotes_inside_a_text_are_no_texts() -> None:
    quoted = json.dumps({"a": ["b"] * 100}) * 20_000

    assert quoted.count('"') > 2 * MAX_JSON_TEXTS
    assert decode_body(json.dumps({"text": quoted}).encode(), SAMPLE).text == quoted


def test_the_measure_of_cost_tells_a_decode_without_types() -> None:
    with pytest.raises(AssertionError, match="of short texts"):
        assert_cheap(lambda: msgspec.json.decode(b"[" + b"[]," * 3_400_000 + b"1]"))
