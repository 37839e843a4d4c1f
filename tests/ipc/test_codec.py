"""Bytes that come from a peer give a message or a ProtocolError, and never anything else."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipc.codec import MAX_MESSAGE_BYTES, decode_from_worker, decode_to_worker, encode_message
from ipc.errors import ProtocolError, Unsendable
from ipc.messages import Cancel, Delta, Finished, FromWorker, Generate, Hello, Sampling, ToWorker
from tests.ipc.message_strategies import FROM_WORKER, TO_WORKER, Message

DECODERS: tuple[Callable[[bytes], Message], ...] = (decode_to_worker, decode_from_worker)
# A nest that no decoder may follow to its bottom.
DEEP_NEST = b"\x91" * 200_000 + b"\xc0"


@given(TO_WORKER)
def test_every_message_for_a_worker_round_trips(message: ToWorker) -> None:
    assert decode_to_worker(encode_message(message)) == message


@given(FROM_WORKER)
def test_every_message_of_a_worker_round_trips(message: FromWorker) -> None:
    assert decode_from_worker(encode_message(message)) == message


@given(TO_WORKER)
def test_a_message_for_a_worker_is_none_of_a_worker(message: ToWorker) -> None:
    with pytest.raises(ProtocolError):
        decode_from_worker(encode_message(message))


@given(FROM_WORKER)
def test_a_message_of_a_worker_is_none_for_a_worker(message: FromWorker) -> None:
    with pytest.raises(ProtocolError):
        decode_to_worker(encode_message(message))


def is_message_or_protocol_error(frame: bytes) -> bool:
    for decode in DECODERS:
        try:
            decode(frame)
        except ProtocolError:
            continue

    return True


@given(st.binary(max_size=200))
def test_garbage_is_a_protocol_error(frame: bytes) -> None:
    assert is_message_or_protocol_error(frame)


@given(TO_WORKER | FROM_WORKER, st.data())
def test_a_truncated_frame_is_a_protocol_error(message: Message, data: st.DataObject) -> None:
    frame = encode_message(message)
    part = frame[: data.draw(st.integers(0, len(frame) - 1))]

    for decode in DECODERS:
        with pytest.raises(ProtocolError):
            decode(part)


@given(TO_WORKER | FROM_WORKER, st.binary(min_size=1, max_size=9))
def test_bytes_after_a_message_are_a_protocol_error(message: Message, rest: bytes) -> None:
    for decode in DECODERS:
        with pytest.raises(ProtocolError):
            decode(encode_message(message) + rest)


@given(TO_WORKER | FROM_WORKER, st.data())
def test_a_frame_with_a_changed_byte_is_a_message_or_a_protocol_error(message: Message, data: st.DataObject) -> None:
    frame = bytearray(encode_message(message))
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    assert is_message_or_protocol_error(bytes(frame))


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xff not a message",
        DEEP_NEST,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff\xa1a",
        b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xffab",
        b"\x81\xa4type\xa5delta",
        b"\x81\xa4type\xa2\xff\xfe",
        b"\xc7\x0c\xff" + b"\x00" * 12,
        msgspec.msgpack.encode({"type": "delta", "request_id": "1", "text": "a", "completion_tokens": 1}),
        msgspec.msgpack.encode({"type": "delta", "request_id": 1, "text": None, "completion_tokens": 1}),
        msgspec.msgpack.encode({"type": "delta", "request_id": 1, "text": "a"}),
        msgspec.msgpack.encode({"type": "load", "request_id": 1}),
        msgspec.msgpack.encode({"request_id": 1}),
        msgspec.msgpack.encode({"type": "finished", "request_id": 1, "reason": "boredom"}),
        msgspec.msgpack.encode(["delta", 1, "a", 1]),
    ],
    ids=lambda frame: frame[:24].hex(),
)
def test_what_is_no_message_is_a_protocol_error(frame: bytes) -> None:
    for decode in DECODERS:
        with pytest.raises(ProtocolError, match="not a message"):
            decode(frame)


@pytest.mark.parametrize(
    "changes",
    [{"prompt": ("\ud800",)}, {"request_id": 2**64}, {"max_tokens": -(2**63) - 1}],
    ids=["lone surrogate", "huge number", "huge negative number"],
)
def test_what_no_message_can_hold_is_unsendable(changes: dict[str, Any]) -> None:
    plain = Generate(request_id=1, prompt=("a",), max_tokens=1, sampling=Sampling())

    with pytest.raises(Unsendable, match="Generate cannot be encoded"):
        encode_message(msgspec.structs.replace(plain, **changes))


def test_a_message_past_the_bound_is_unsendable_and_one_at_the_bound_is_not() -> None:
    overhead = len(encode_message(Delta(request_id=1, text="a" * 2**16, completion_tokens=1))) - 2**16
    room = MAX_MESSAGE_BYTES - overhead
    assert len(encode_message(Delta(request_id=1, text="a" * room, completion_tokens=1))) == MAX_MESSAGE_BYTES

    with pytest.raises(Unsendable, match="past the bound"):
        encode_message(Delta(request_id=1, text="a" * (room + 1), completion_tokens=1))


def test_types_survive() -> None:
    hello = decode_from_worker(encode_message(Hello(secret=b"\x00\xff", generation=1, pid=2, version="3")))
    assert isinstance(hello, Hello)
    assert hello.secret == b"\x00\xff"
    generate = Generate(request_id=1, prompt=("a", ""), max_tokens=2, sampling=Sampling(seed=2**63))
    assert decode_to_worker(encode_message(generate)) == generate
    assert decode_to_worker(encode_message(Cancel(7))) == Cancel(7)
    assert not isinstance(hello, Finished)
