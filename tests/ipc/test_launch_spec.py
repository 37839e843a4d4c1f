"""What a worker reads from the pipe of its birth: a spec, or an error that says what was wrong."""

import os
import struct
import threading
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ipc.launch_spec import LaunchSpec, read_launch_spec, write_launch_spec
from ipc.messages import DeviceChoice

SPEC = LaunchSpec(endpoint="ipc:///run/x", secret=bytes(range(32)), generation=3, parent_pid=42, model_dir="/models/ä")


class Pipe:
    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()

    def close_write(self) -> None:
        os.close(self.write_fd)
        self.write_fd = -1

    def close(self) -> None:
        for fd in (self.read_fd, self.write_fd):
            if fd >= 0:
                os.close(fd)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


SPECS = st.builds(
    LaunchSpec,
    endpoint=st.text(st.characters(codec="utf-8"), max_size=120),
    secret=st.binary(min_size=32, max_size=32),
    generation=st.integers(1, 2**62),
    parent_pid=st.integers(1, 2**22),
    model_dir=st.text(st.characters(codec="utf-8"), max_size=400),
    device=st.sampled_from(DeviceChoice),
    prefill_chunk=st.integers(0, 10_000),
    kv_slots=st.integers(0, 64),
    kv_bytes=st.integers(0, 1 << 40),
    threads=st.none() | st.integers(1, 512),
    has_loop_guard=st.booleans(),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spec=SPECS)
def test_a_spec_round_trips_and_the_pipe_stays_open(pipe: Pipe, spec: LaunchSpec) -> None:
    write_launch_spec(pipe.write_fd, spec)

    assert read_launch_spec(pipe.read_fd) == spec
    os.set_blocking(pipe.read_fd, False)

    with pytest.raises(BlockingIOError):
        os.read(pipe.read_fd, 1)

    os.set_blocking(pipe.read_fd, True)


def test_a_spec_that_comes_in_pieces_is_read_whole(pipe: Pipe) -> None:
    other = Pipe()
    write_launch_spec(other.write_fd, SPEC)
    frame = os.read(other.read_fd, 10_000)
    other.close()

    def write_slowly() -> None:
        for number in range(len(frame)):
            os.write(pipe.write_fd, frame[number : number + 1])

    writer = threading.Thread(target=write_slowly)
    writer.start()
    assert read_launch_spec(pipe.read_fd) == SPEC
    writer.join()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_pipe_that_ends_early_is_an_end_of_file(pipe: Pipe, share: float) -> None:
    other = Pipe()
    write_launch_spec(other.write_fd, SPEC)
    frame = os.read(other.read_fd, 10_000)
    other.close()
    os.write(pipe.write_fd, frame[: int(len(frame) * share)])
    pipe.close_write()

    with pytest.raises(EOFError, match="ended before"):
        read_launch_spec(pipe.read_fd)


def test_a_length_past_the_bound_is_refused_before_anything_is_read(pipe: Pipe) -> None:
    os.write(pipe.write_fd, struct.pack("!I", 2**32 - 1) + b"rest")

    with pytest.raises(ValueError, match="past the bound"):
        read_launch_spec(pipe.read_fd)

    assert os.read(pipe.read_fd, 10) == b"rest"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\xff" * 30,
        b"\x91" * 1000,
        b"\x81\xa8endpoint\xa2\xff\xfe",
        msgspec.msgpack.encode({"endpoint": "ipc://x"}),
        msgspec.msgpack.encode(msgspec.structs.asdict(SPEC) | {"device": "tpu"}),
        msgspec.msgpack.encode(msgspec.structs.asdict(SPEC) | {"generation": "3"}),
        msgspec.msgpack.encode(SPEC) + b"\x00",
    ],
    ids=["empty", "reserved", "numbers", "nest", "bad text", "missing", "bad device", "bad type", "trailing"],
)
def test_what_is_no_spec_is_a_value_error(pipe: Pipe, body: bytes) -> None:
    os.write(pipe.write_fd, struct.pack("!I", len(body)) + body)

    with pytest.raises(ValueError, match="no launch spec"):
        read_launch_spec(pipe.read_fd)


def test_writing_to_a_dead_child_is_a_broken_pipe(pipe: Pipe) -> None:
    os.close(pipe.read_fd)
    pipe.read_fd = -1

    with pytest.raises(BrokenPipeError):
        write_launch_spec(pipe.write_fd, SPEC)


def test_a_path_that_is_no_text_cannot_be_told(pipe: Pipe) -> None:
    spec = msgspec.structs.replace(SPEC, model_dir=os.fsdecode(b"/models/\xff"))

    with pytest.raises(ValueError, match="surrogates"):
        write_launch_spec(pipe.write_fd, spec)
