"""Messages to bytes and back, strictly: unknown tags, missing fields and wrong types are errors, never guesses."""

import msgspec

from ipc.errors import ProtocolError, Unsendable
from ipc.messages import FromWorker, ToWorker

# One message is at most this long. A prompt is bounded by the body limit of the API (10 MiB), so nothing honest comes near.
MAX_MESSAGE_BYTES = 32 * 1024 * 1024

_encoder = msgspec.msgpack.Encoder()
_to_worker = msgspec.msgpack.Decoder(ToWorker)
_from_worker = msgspec.msgpack.Decoder(FromWorker)


def encode_message(message: ToWorker | FromWorker) -> bytes:
    """Raises Unsendable. A peer would drop the connection over a message that is too long, so it must not leave."""
    try:
        frame = _encoder.encode(message)
    except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError) as error:
        raise Unsendable(f"a {type(message).__name__} cannot be encoded: {error}") from error

    if len(frame) > MAX_MESSAGE_BYTES:
        raise Unsendable(f"a {type(message).__name__} of {len(frame)} bytes is past the bound of {MAX_MESSAGE_BYTES}")

    return frame


def decode_to_worker(frame: bytes) -> ToWorker:
    """Raises ProtocolError for anything that is not a `ToWorker` message."""
    try:
        return _to_worker.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"not a message for a worker: {error}") from error


def decode_from_worker(frame: bytes) -> FromWorker:
    """Raises ProtocolError for anything that is not a `FromWorker` message."""
    try:
        return _from_worker.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"not a message of a worker: {error}") from error
