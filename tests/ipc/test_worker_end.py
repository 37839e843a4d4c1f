"""The worker's end: what it takes, when it notices that the front is gone, and what it hands over before it closes."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
import zmq

import ipc.worker_end
from ipc.codec import decode_from_worker, encode_message
from ipc.errors import ChannelClosed, ProtocolError, Unsendable
from ipc.messages import Cancel, Delta, FromWorker, ToWorker
from ipc.worker_end import WorkerEnd


def delta(number: int, text: str = "x") -> Delta:
    return Delta(request_id=1, text=text, completion_tokens=number)


class BareFront:
    """A bare socket in the front's place, and the front's end of the lifeline."""

    def __init__(self, runtime_dir: Path) -> None:
        self.path = runtime_dir / "w1"
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.bind()
        self.read_fd, self._write_fd = os.pipe()
        self.worker = WorkerEnd(f"ipc://{self.path}", self.read_fd)

    def bind(self) -> None:
        self.socket = self._context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.RCVTIMEO, 5000)
        self.socket.bind(f"ipc://{self.path}")

    def receive(self) -> FromWorker:
        self.peer, frame = self.socket.recv_multipart()
        return decode_from_worker(frame)

    def send(self, message: ToWorker | bytes) -> None:
        frame = message if isinstance(message, bytes) else encode_message(message)
        self.socket.send_multipart([self.peer, frame])

    def meet(self) -> None:
        """The front can speak only to one who has spoken."""
        self.worker.send(delta(0))
        assert self.receive() == delta(0)

    def send_much(self, count: int) -> None:
        for number in range(count):
            self.worker.send(delta(number, "x" * 500))

    def cut_lifeline(self) -> None:
        os.close(self._write_fd)
        self._write_fd = -1

    def close(self) -> None:
        self.socket.close(linger=0)
        self.worker.close()
        self._context.term()
        self.path.unlink(missing_ok=True)
        os.close(self.read_fd)

        if self._write_fd >= 0:
            self.cut_lifeline()


@pytest.fixture
def front(runtime_dir: Path) -> Iterator[BareFront]:
    front = BareFront(runtime_dir)
    yield front
    front.close()


def test_messages_come_in_order(front: BareFront) -> None:
    front.meet()

    for number in range(500):
        front.send(Cancel(number))

    assert [front.worker.receive(5000) for _ in range(500)] == [Cancel(number) for number in range(500)]


def test_looking_at_an_empty_channel_is_none_and_cheap(front: BareFront) -> None:
    front.meet()
    before = time.monotonic()

    for _ in range(5000):
        assert front.worker.receive(0) is None

    # A few microseconds each; the bound leaves room for a busy machine.
    assert time.monotonic() - before < 1


def test_looking_at_an_empty_channel_raises_nothing_inside(front: BareFront) -> None:
    """An exception for each token would be what the worker spends most of its own time on."""
    front.meet()
    raised = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is zmq.ZMQError.__init__.__code__:
            raised.append(frame)

    sys.setprofile(note)

    try:
        for _ in range(10):
            assert front.worker.receive(0) is None
    finally:
        sys.setprofile(None)

    assert not raised


def test_looking_finds_what_has_come(front: BareFront) -> None:
    front.meet()
    front.send(Cancel(3))
    deadline = time.monotonic() + 5
    found = None

    while found is None and time.monotonic() < deadline:
        found = front.worker.receive(0)

    assert found == Cancel(3)
    assert front.worker.receive(0) is None


def test_a_wait_that_is_over_is_none(front: BareFront) -> None:
    before = time.monotonic()
    assert front.worker.receive(50) is None
    assert time.monotonic() - before >= 0.045


@pytest.mark.parametrize("timeout_ms", [None, 5000])
def test_the_end_of_the_lifeline_ends_a_wait(front: BareFront, timeout_ms: int | None) -> None:
    front.cut_lifeline()

    with pytest.raises(ChannelClosed, match="the front is gone"):
        front.worker.receive(timeout_ms)


def test_what_came_before_the_end_of_the_lifeline_is_taken_first(front: BareFront) -> None:
    front.meet()
    front.send(Cancel(1))
    # Until it is here; then the lifeline is cut, and both are ready.
    assert front.worker._socket.poll(5000)
    front.cut_lifeline()

    assert front.worker.receive(None) == Cancel(1)

    with pytest.raises(ChannelClosed):
        front.worker.receive(None)


@pytest.mark.parametrize("frame", [b"", b"\xff garbage", encode_message(delta(1))], ids=["empty", "garbage", "foreign"])
def test_what_is_no_message_is_a_protocol_error(front: BareFront, frame: bytes) -> None:
    front.meet()
    front.send(frame)

    with pytest.raises(ProtocolError):
        front.worker.receive(5000)


def test_what_cannot_be_encoded_is_not_sent(front: BareFront) -> None:
    with pytest.raises(Unsendable):
        front.worker.send(delta(1, "\ud800"))

    front.worker.send(delta(2))
    assert front.receive() == delta(2)


def test_close_hands_over_all_that_was_sent_and_works_twice(front: BareFront) -> None:
    # More than a socket's buffer holds, so that closing has to wait for the reader.
    front.send_much(900)
    front.worker.close()
    front.worker.close()
    assert [front.receive() for _ in range(900)] == [delta(number, "x" * 500) for number in range(900)]


def test_a_front_that_does_not_read_ends_a_send(runtime_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipc.worker_end, "SEND_TIMEOUT_MS", 50)
    monkeypatch.setattr(ipc.worker_end, "CLOSE_LINGER_MS", 50)
    front = BareFront(runtime_dir)

    with pytest.raises(ChannelClosed, match="does not read"):
        front.send_much(100_000)

    front.close()


def test_a_worker_that_lost_its_front_looks_for_no_other_at_the_address(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ipc.worker_end, "SEND_TIMEOUT_MS", 200)
    monkeypatch.setattr(ipc.worker_end, "CLOSE_LINGER_MS", 50)
    front = BareFront(runtime_dir)
    front.meet()
    front.socket.close(linger=0)
    front.path.unlink(missing_ok=True)
    front.bind()

    with pytest.raises(ChannelClosed):
        front.send_much(100_000)

    assert not front.socket.poll(50)
    front.close()
