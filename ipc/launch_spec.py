"""What a worker is told, over an inherited pipe: at its birth, or later if it was started ahead of its model.

Neither argv nor the environment may carry the secret: both are readable in /proc.
"""

import os
import struct

import msgspec

from ipc.messages import DeviceChoice

_LENGTH = struct.Struct("!I")
_MAX_BYTES = 1 << 20


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a worker must know before it can say Hello.

    endpoint: ZeroMQ address at which the front listens for this worker alone.
    secret: 32 random bytes, to be said back in Hello.
    generation: number of this worker in the life of the front, from 1.
    parent_pid: the front; a worker that finds another parent exits.
    model_dir: absolute path of a GenAI folder.
    prefill_chunk: most tokens that are fed to the model in one native call; 0 means the whole prompt.
    threads: intra-op threads; None leaves the choice to the engine.
    parallel: most requests at the same time, where the model can; others take one.
    no_cuda_reason: why AUTO must not try CUDA, for the front knows better (there is too little memory); None leaves it to the worker.
    kv_slots: finished requests whose keys and values may be kept, so that later ones continue from them; 0 keeps none.
    kv_bytes: most memory of all that is kept.
    shares_prefixes: a paged model may reuse the blocks of any request for any other, since the engine does not tell whose they are.
    has_loop_guard: end a generation that repeats one token cycle for ever.
    """

    endpoint: str
    secret: bytes
    generation: int
    parent_pid: int
    model_dir: str
    device: DeviceChoice = DeviceChoice.AUTO
    no_cuda_reason: str | None = None
    prefill_chunk: int = 128
    threads: int | None = None
    parallel: int = 1
    kv_slots: int = 0
    kv_bytes: int = 0
    shares_prefixes: bool = True
    has_loop_guard: bool = True


def encode_launch_spec(spec: LaunchSpec) -> bytes:
    """Return the spec with its length before it. Raises ValueError for a path that is no text."""
    body = msgspec.msgpack.encode(spec)
    return _LENGTH.pack(len(body)) + body


def write_launch_frame(write_fd: int, frame: bytes) -> None:
    """Write an encoded spec. The pipe stays open: its end tells the worker that the front is gone.

    Raises OSError: nobody reads there any more, or the descriptor does not block and the pipe is full.
    """
    while frame:
        frame = frame[os.write(write_fd, frame) :]


def write_launch_spec(write_fd: int, spec: LaunchSpec) -> None:
    """Encode and write a spec."""
    write_launch_frame(write_fd, encode_launch_spec(spec))


def read_launch_spec(read_fd: int) -> LaunchSpec:
    """Read what `write_launch_spec` wrote; blocks until it came.

    Raises EOFError when the pipe ends early, ValueError when it does not hold a spec.
    """
    (length,) = _LENGTH.unpack(_read_exactly(read_fd, _LENGTH.size))

    if length > _MAX_BYTES:
        raise ValueError(f"a launch spec of {length} bytes is past the bound of {_MAX_BYTES}")

    body = _read_exactly(read_fd, length)

    try:
        return msgspec.msgpack.decode(body, type=LaunchSpec)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"what came is no launch spec: {error}") from error


def _read_exactly(read_fd: int, length: int) -> bytes:
    received = b""

    while len(received) < length:
        part = os.read(read_fd, length - len(received))

        if not part:
            raise EOFError("the launch pipe ended before the spec was complete")

        received += part

    return received
