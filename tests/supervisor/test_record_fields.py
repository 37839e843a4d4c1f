"""Records of strangers: nothing is believed unchecked, nothing raises anything else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.held_record import MAX_RECORD_BYTES
from supervisor.process_identity import own_identity
from supervisor.record_fields import MAX_TEXT_CHARACTERS, BadRecord, RecordFields, encode_record

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
NAMES = ("pid", "start_ticks", "boot_id", "pid_namespace")


@given(st.binary())
def test_any_bytes_are_fields_or_a_bad_record(content: bytes) -> None:
    try:
        RecordFields(content)
    except BadRecord:
        return

    assert isinstance(json.loads(content), dict)


@given(st.fixed_dictionaries({name: json_values | st.just(7) | st.just("7") for name in NAMES}))
def test_any_values_are_an_identity_or_a_bad_record_that_names_the_field(values: dict[str, object]) -> None:
    try:
        identity = RecordFields(json.dumps(values).encode()).identity()
    except BadRecord as error:
        assert str(error).startswith(NAMES)  # noqa: PT017
    else:
        assert {name: getattr(identity, name) for name in NAMES} == values


@given(st.text(min_size=1, max_size=MAX_TEXT_CHARACTERS), st.integers(0, (1 << 63) - 1))
def test_what_is_encoded_is_read_again(text: str, number: int) -> None:
    own = own_identity()
    content = encode_record(own, {"model": text, "bytes": number, "url": None})
    fields = RecordFields(content)

    assert fields.identity() == own
    assert (fields.text("model"), fields.whole("bytes"), fields.text_or_none("url")) == (text, number, None)


def test_the_longest_record_is_not_too_long_to_be_read() -> None:
    longest = "\N{GRINNING FACE}" * MAX_TEXT_CHARACTERS
    assert len(encode_record(own_identity(), {"model": longest, "url": longest})) < MAX_RECORD_BYTES


@pytest.mark.parametrize(
    "content",
    [b"", b"null", b"[]", b"[" * 8000, b'{"a":' * 2000, b"\xff\xfe", b'{"pid":' + b"9" * 5000 + b"}", b"{}{}", b"{"],
)
def test_garbage_is_a_bad_record(content: bytes) -> None:
    with pytest.raises(BadRecord, match="record"):
        RecordFields(content)


@pytest.mark.parametrize("value", ["true", "1.0", '"7"', "null", "-1", "NaN", "1e3", "9223372036854775808", "[7]"])
def test_what_is_no_whole_number_is_refused_by_name(value: str) -> None:
    with pytest.raises(BadRecord, match="worker_pid"):
        RecordFields(f'{{"worker_pid":{value}}}'.encode()).whole("worker_pid")


@pytest.mark.parametrize("value", ["7", "null", '""', '"' + "x" * (MAX_TEXT_CHARACTERS + 1) + '"', "[]"])
def test_what_is_no_text_is_refused_by_name(value: str) -> None:
    with pytest.raises(BadRecord, match="model"):
        RecordFields(f'{{"model":{value}}}'.encode()).text("model")


@pytest.mark.parametrize("pid", [0, 1 << 40])
def test_a_process_id_that_cannot_be_is_refused_by_name(pid: int) -> None:
    values = {"pid": pid, "start_ticks": 1, "boot_id": "b", "pid_namespace": 1}

    with pytest.raises(BadRecord, match="pid is out of range"):
        RecordFields(json.dumps(values).encode()).identity()
