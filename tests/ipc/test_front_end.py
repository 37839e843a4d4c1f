"""The front's end: who is admitted, what is lost (nothing), and what is left behind (nothing)."""

import asyncio
import os
import signal
import socket
import stat
import time
from pathlib import Path

import pytest

from ipc.codec import MAX_MESSAGE_BYTES, decode_to_worker
from ipc.errors import ChannelClosed, ChannelFull, Unsendable
from ipc.front_end import MAX_PATH_BYTES, ChannelContext
from ipc.messages import Cancel, Delta, Finished, FromWorker, Generate, Hello, Sampling
from tests.ipc.conftest import HELLO, SECRET, Front, PeerProcesses, Peers, until


def delta(number: int) -> Delta:
    return Delta(request_id=1, text=f"{number} ", completion_tokens=number + 1)


def numbers_of(messages: list[FromWorker]) -> list[int]:
    return [message.completion_tokens - 1 for message in messages if isinstance(message, Delta)]


async def test_the_peer_that_knows_the_secret_is_heard_and_answered(front: Front, peers: Peers) -> None:
    peer = peers.connect(front)
    peer.send(HELLO)
    peer.send(delta(0))
    await front.received(2)

    assert front.messages == [HELLO, delta(0)]
    front.end.send(Cancel(5))
    assert decode_to_worker(peer.socket.recv()) == Cancel(5)


WRONG_HELLOS: list[tuple[bytes | Hello | list[bytes], str]] = [
    (Hello(secret=bytes(32), generation=1, pid=1, version="test"), "wrong secret"),
    (Hello(secret=SECRET[:-1], generation=1, pid=1, version="test"), "short secret"),
    (Hello(secret=b"", generation=1, pid=1, version="test"), "no secret"),
    (Hello(secret=SECRET, generation=2, pid=1, version="test"), "wrong generation"),
    (b"\xff garbage", "garbage"),
    (b"", "nothing"),
    ([b"", b""], "two frames"),
]


@pytest.mark.parametrize("first", [wrong for wrong, _ in WRONG_HELLOS], ids=[name for _, name in WRONG_HELLOS])
async def test_an_impostor_that_comes_first_gets_nothing_and_disturbs_nothing(
    front: Front, peers: Peers, first: Hello | bytes | list[bytes]
) -> None:
    impostor = peers.connect(front)
    impostor.socket.send_multipart(first) if isinstance(first, list) else impostor.send(first)
    worker = peers.connect(front)
    worker.send(HELLO)
    await front.received(1)

    # It says the right thing too late, and goes on talking.
    impostor.send(HELLO)
    impostor.send(delta(99))
    impostor.send(b"\xff garbage")
    front.end.send(Cancel(1))
    assert decode_to_worker(worker.socket.recv()) == Cancel(1)
    worker.send(delta(0))
    await front.received(2)

    assert front.messages == [HELLO, delta(0)]
    assert front.faults == []
    assert not impostor.socket.poll(50)


async def test_a_send_does_not_make_the_front_deaf(front: Front, peers: Peers) -> None:
    peer = peers.connect(front)
    peer.send(HELLO)
    await front.received(1)

    for number in range(5):
        peer.send(delta(number))
        time.sleep(0.02)  # noqa: ASYNC251  # the loop must not see the message before the send does
        front.end.send(Cancel(1))
        await front.received(2 + number)


async def test_an_impostor_that_talks_before_the_hello_is_not_handed_on(front: Front, peers: Peers) -> None:
    impostor = peers.connect(front)

    for number in range(1000):
        impostor.send(delta(number))

    worker = peers.connect(front)
    worker.send(HELLO)
    worker.send(delta(7))
    await front.received(2)

    assert front.messages == [HELLO, delta(7)]
    assert front.faults == []


async def test_bytes_that_are_not_even_zeromq_disturb_nothing(front: Front, peers: Peers) -> None:
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(front.path))
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
        worker = peers.connect(front)
        worker.send(HELLO)
        await front.received(1)

    assert front.faults == []
    front.end.send(Cancel(1))
    assert decode_to_worker(worker.socket.recv()) == Cancel(1)


async def test_the_address_is_gone_after_the_hello_and_the_connection_stays(front: Front, peers: Peers) -> None:
    assert front.path.exists()
    worker = peers.connect(front)
    worker.send(HELLO)
    await front.received(1)

    assert not front.path.exists()

    with socket.socket(socket.AF_UNIX) as late, pytest.raises(FileNotFoundError):
        late.connect(str(front.path))

    worker.send(delta(0))
    await front.received(2)


async def test_nobody_else_may_connect(front: Front) -> None:
    assert stat.S_IMODE(front.path.stat().st_mode) & 0o077 == 0


async def test_an_address_that_is_served_is_never_taken_over(
    front: Front, context: ChannelContext, peers: Peers
) -> None:
    with pytest.raises(FileExistsError, match="steal"):
        Front(context, front.path)

    peer = peers.connect(front)
    peer.send(HELLO)
    await front.received(1)


async def test_a_dangling_link_is_an_existing_path(context: ChannelContext, runtime_dir: Path) -> None:
    path = runtime_dir / "w1"
    path.symlink_to(runtime_dir / "nowhere")

    with pytest.raises(FileExistsError):
        Front(context, path)

    path.unlink()


async def test_the_longest_path_works_and_one_more_byte_is_refused(
    context: ChannelContext, runtime_dir: Path, peers: Peers
) -> None:
    longest = runtime_dir / ("p" * (MAX_PATH_BYTES - len(str(runtime_dir)) - 1))
    front = Front(context, longest)
    peers.connect(front).send(HELLO)
    await front.received(1)
    front.end.close()

    with pytest.raises(ValueError, match=f"longer than {MAX_PATH_BYTES} bytes"):
        Front(context, longest.with_name(longest.name + "p"))


async def test_a_folder_that_is_not_there_is_an_os_error_and_leaves_nothing(
    context: ChannelContext, runtime_dir: Path
) -> None:
    with pytest.raises(OSError, match="cannot listen"):
        Front(context, runtime_dir / "nowhere" / "w1")


async def test_nothing_can_be_sent_before_the_hello_or_after_the_end(front: Front, peers: Peers) -> None:
    with pytest.raises(ChannelClosed):
        front.end.send(Cancel(1))

    peers.connect(front).send(HELLO)
    await front.received(1)
    front.end.close()

    with pytest.raises(ChannelClosed):
        front.end.send(Cancel(1))


async def test_a_dead_peer_is_an_error_and_no_silent_loss(front: Front, processes: PeerProcesses) -> None:
    await processes.start(front, "kill", 0)
    await front.received(1)
    await processes.ended()
    await front.end.wait_disconnected(5)

    async def send_for_a_while() -> None:
        for _ in range(1000):
            front.end.send(Cancel(1))
            await asyncio.sleep(0.001)

    # The connection's end is told a moment before the socket knows of it.
    with pytest.raises(ChannelClosed):
        await send_for_a_while()


async def test_an_unsendable_message_leaves_the_channel_as_it_was(front: Front, peers: Peers) -> None:
    peer = peers.connect(front)
    peer.send(HELLO)
    await front.received(1)

    with pytest.raises(Unsendable):
        front.end.send(Generate(request_id=1, prompt=("\ud800",), max_tokens=1, sampling=Sampling()))

    front.end.send(Cancel(2))
    assert decode_to_worker(peer.socket.recv()) == Cancel(2)


def send_until_full(front: Front, first: int) -> int:
    """Return how many messages were taken; their ids count from the first."""
    for number in range(100_000):
        try:
            front.end.send(Generate(request_id=first + number, prompt=("x" * 1000,), max_tokens=1, sampling=Sampling()))
        except ChannelFull:
            return number

    raise AssertionError("a peer that reads nothing took everything")


async def test_a_peer_that_does_not_read_is_an_error_and_what_was_sent_before_arrives(
    front: Front, peers: Peers
) -> None:
    peer = peers.connect(front)
    peer.send(HELLO)
    await front.received(1)
    sent = send_until_full(front, 0)

    # Its words are heard all the same: a send, also in vain, takes the signal that there is something to read.
    peer.send(delta(0))
    time.sleep(0.05)  # noqa: ASYNC251  # the loop must not see the message before the send does

    sent += send_until_full(front, sent)
    await front.received(2)

    received = [decode_to_worker(peer.socket.recv()).request_id for _ in range(sent)]
    assert received == list(range(sent))
    assert not peer.socket.poll(50)


@pytest.mark.timeout(20)
async def test_the_end_of_the_front_waits_for_nobody_who_does_not_read(
    context: ChannelContext, front: Front, peers: Peers
) -> None:
    peers.connect(front).send(HELLO)
    await front.received(1)
    send_until_full(front, 0)
    front.end.close()
    before = time.monotonic()
    context.close()
    assert time.monotonic() - before < 5


async def test_a_stopped_process_is_a_full_peer(front: Front, processes: PeerProcesses) -> None:
    pid = await processes.start(front, "words", 500_000)
    await front.received(1)
    os.kill(pid, signal.SIGSTOP)

    assert send_until_full(front, 0) > 0
    os.kill(pid, signal.SIGKILL)
    await processes.ended()


async def test_twenty_thousand_messages_come_in_order(front: Front, processes: PeerProcesses) -> None:
    await processes.start(front, "words", 20_000)
    await front.received(20_002)
    await processes.ended()

    assert isinstance(front.messages[0], Hello)
    assert numbers_of(front.messages) == list(range(20_000))
    assert isinstance(front.messages[-1], Finished)


async def test_others_run_between_the_messages_of_a_flood(front: Front, peers: Peers) -> None:
    turns = 0

    async def tick() -> None:
        nonlocal turns

        while True:
            turns += 1
            await asyncio.sleep(0)

    peer = peers.connect(front)
    peer.send(HELLO)

    for number in range(5000):
        peer.send(delta(number))

    time.sleep(0.1)  # noqa: ASYNC251  # all of it is to lie there when the loop looks
    ticking = asyncio.create_task(tick())
    await front.received(5001)
    ticking.cancel()

    assert turns >= 5000 // 256


async def test_tokens_of_several_requests_that_lie_there_cost_one_wake_up(front: Front, peers: Peers) -> None:
    turn = 0
    turns_of_messages = []
    note = front.end._on_message

    def note_turn(message: FromWorker) -> None:
        turns_of_messages.append(turn)
        note(message)

    async def tick() -> None:
        nonlocal turn

        while True:
            turn += 1
            await asyncio.sleep(0)

    front.end._on_message = note_turn
    peer = peers.connect(front)
    peer.send(HELLO)
    await front.received(1)

    for request_id in range(1, 9):
        peer.send(Delta(request_id=request_id, text="x", completion_tokens=1))

    time.sleep(0.1)  # noqa: ASYNC251  # all of it is to lie there when the loop looks
    ticking = asyncio.create_task(tick())
    await front.received(9)
    ticking.cancel()

    assert len(set(turns_of_messages[1:])) == 1


async def test_last_words_of_a_process_that_ends_at_once_are_all_here(
    context: ChannelContext, runtime_dir: Path, processes: PeerProcesses
) -> None:
    for number in range(150):
        front = Front(context, runtime_dir / f"w{number}")
        count = (0, 1, 40, 3000)[number % 4]
        await processes.start(front, "words", count)
        await processes.ended()
        await front.end.wait_disconnected(5)
        front.end.drain()

        assert numbers_of(front.messages) == list(range(count))
        assert isinstance(front.messages[-1], Finished)
        front.end.close()


async def test_a_process_that_never_connected_costs_the_bound_and_no_more(
    front: Front, processes: PeerProcesses
) -> None:
    await processes.start(front, "mute", 0)
    await processes.ended()
    before = asyncio.get_running_loop().time()
    await front.end.wait_disconnected(0.05)
    assert asyncio.get_running_loop().time() - before < 1
    assert front.messages == []


async def test_the_end_of_the_connection_is_told_after_the_last_words(front: Front, peers: Peers) -> None:
    heard_before: list[int] = []
    front.end._on_disconnected = lambda: heard_before.append(len(front.messages))
    peer = peers.connect(front)
    peer.send(HELLO)

    for number in range(500):
        peer.send(delta(number))

    peer.socket.close()
    await until(lambda: bool(heard_before))

    assert heard_before == [501]


async def test_a_stranger_that_leaves_is_not_the_worker_that_leaves(front: Front, peers: Peers) -> None:
    stranger = peers.connect(front)
    stranger.send(b"\xff garbage")
    worker = peers.connect(front)
    worker.send(HELLO)
    await front.received(1)
    stranger.socket.close()
    waiting = asyncio.create_task(front.end.wait_disconnected(10))
    # Its words come after the stranger's leaving was heard of, and the wait must not be over by then.
    await asyncio.sleep(0.1)
    assert front.disconnected == 0
    assert not waiting.done()

    worker.send(delta(0))
    worker.socket.close()
    await waiting
    assert front.messages == [HELLO, delta(0)]
    assert front.disconnected == 1


async def test_a_message_past_the_bound_costs_the_peer_its_connection(front: Front, peers: Peers) -> None:
    peer = peers.connect(front)
    peer.send(HELLO)
    await front.received(1)
    peer.send(b"x" * (MAX_MESSAGE_BYTES + 1))
    await until(lambda: front.disconnected == 1)

    assert front.messages == [HELLO]


@pytest.mark.parametrize("frames", [[b"\xff garbage"], [b""], [b"a", b"b"]], ids=["garbage", "empty", "two frames"])
async def test_a_fault_of_the_worker_is_told_once_and_nothing_after_it(
    front: Front, peers: Peers, frames: list[bytes]
) -> None:
    peer = peers.connect(front)
    peer.send(HELLO)
    peer.send(delta(0))
    peer.socket.send_multipart(frames)
    peer.socket.send_multipart(frames)
    peer.send(delta(1))
    await until(lambda: bool(front.faults))
    front.end.drain()

    assert front.messages == [HELLO, delta(0)]
    assert len(front.faults) == 1
    assert front.disconnected == 0

    with pytest.raises(ChannelClosed):
        front.end.send(Cancel(1))


async def test_closing_in_the_middle_of_a_burst_hands_nothing_more_on(
    context: ChannelContext, runtime_dir: Path, peers: Peers
) -> None:
    front = Front(context, runtime_dir / "w1")
    note = front.messages.append

    def note_and_close(message: FromWorker) -> None:
        note(message)

        if len(front.messages) == 3:
            front.end.close()

    front.end._on_message = note_and_close
    peer = peers.connect(front)

    peer.send(HELLO)

    for number in range(50):
        peer.send(delta(number))

    await front.received(3)
    await asyncio.sleep(0.02)
    assert len(front.messages) == 3


def _descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


async def test_close_removes_the_path_and_every_descriptor(
    context: ChannelContext, runtime_dir: Path, peers: Peers
) -> None:
    # The first socket brings the context's own descriptors, which stay.
    Front(context, runtime_dir / "w0").end.close()
    before = _descriptors()

    for is_said_hello in (False, True):
        front = Front(context, runtime_dir / "w1")

        if is_said_hello:
            peer = peers.connect(front)
            peer.send(HELLO)
            await front.received(1)
            peer.socket.close()

        front.end.close()
        front.end.close()
        assert os.listdir(runtime_dir) == []

    peers.close()
    # ZeroMQ's thread closes a socket a moment after it was asked to.
    await until(lambda: _descriptors() <= before)
