"""The front's end of the channel to one worker: lives in the event loop's thread, never blocks, used by `supervisor` only.

One ROUTER socket per worker generation at an address of its own. The socket is read by a callback on its file descriptor and not by
a task: a message costs one wake-up of the loop, and it is handled before anything else can run.
"""

import asyncio
import contextlib
import hmac
import os
from collections.abc import Callable
from pathlib import Path

import zmq

from ipc.codec import MAX_MESSAGE_BYTES, decode_from_worker, encode_message
from ipc.connections import Connections
from ipc.errors import ChannelClosed, ChannelFull, ProtocolError
from ipc.messages import FromWorker, Hello, ToWorker

# sun_path holds 108 bytes with its closing NUL; libzmq's bind fails past it with an error that does not say so.
MAX_PATH_BYTES = 107
# Messages that a worker may leave unread. It has nothing to read but one request and a cancel.
SEND_HIGH_WATER_MARK = 1_000
# Messages that wait to be read here. At the mark ZeroMQ stops reading, and when the process then ends it throws away what the kernel
# still holds; so the mark is where only a worker that has gone mad gets.
RECEIVE_HIGH_WATER_MARK = 100_000
# Messages handled in one turn of the loop, so that a flood from one worker cannot starve HTTP.
BURST = 256
# As plain numbers: arithmetic on enumerations is several microseconds for each token.
_EVENTS, _POLLIN, _DONTWAIT, _RCVMORE = int(zmq.EVENTS), int(zmq.POLLIN), int(zmq.DONTWAIT), int(zmq.RCVMORE)


class ChannelContext:
    """Owns ZeroMQ's background thread. One for the life of a front; closed after all its channels."""

    def __init__(self) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
        # The first socket starts ZeroMQ's threads, and when there is no descriptor for them ZeroMQ aborts the whole process. So they start
        # now, with the server, and not with a first load on a machine that has run out.
        self.socket().close()

    def socket(self) -> zmq.Socket[bytes]:
        """Make the socket of one channel."""
        return self._context.socket(zmq.ROUTER)

    def close(self) -> None:
        """End the thread. Never waits for messages: each socket has LINGER 0."""
        self._context.destroy(linger=0)


class FrontEnd:
    """Binds an address, admits the one peer that knows the secret, and hands its messages on.

    path: where the socket is made; its directory must be ours alone (mode 0700), and nothing may exist at the path: libzmq would
        unlink and take over an address that somebody serves.
    on_message: called in the loop's thread for each message of the admitted worker, its Hello included, in order.
    on_fault: called once when the worker breaks the protocol; no further message is handed on.
    on_disconnected: called when the connection of the admitted worker, and any other, has ended.
    """

    def __init__(
        self,
        context: ChannelContext,
        path: Path,
        secret: bytes,
        generation: int,
        on_message: Callable[[FromWorker], None],
        on_fault: Callable[[ProtocolError], None],
        on_disconnected: Callable[[], None],
    ) -> None:
        """Raises ValueError when the path is too long, OSError when the system refuses; then nothing is left behind."""
        if len(os.fsencode(path)) > MAX_PATH_BYTES:
            raise ValueError(
                f"the socket path {path} is longer than {MAX_PATH_BYTES} bytes; use a shorter runtime directory"
            )

        if os.path.lexists(path):
            raise FileExistsError(f"{path} exists already; binding it would steal the address")

        self._path = path
        self._secret = secret
        self._generation = generation
        self._on_message = on_message
        self._on_fault = on_fault
        self._on_disconnected = on_disconnected
        self._peer: bytes | None = None
        self._is_closed = False
        self._loop = asyncio.get_running_loop()

        try:
            self._socket = context.socket()
        except zmq.ZMQError as error:
            raise OSError(error.errno, f"no socket for a worker: {error}") from error

        try:
            self._open()
        except zmq.ZMQError as error:
            self._socket.close()
            raise OSError(error.errno, f"cannot listen at {path}: {error}") from error

    def _open(self) -> None:
        self._configure()
        self._connections = Connections(self._socket, self._on_all_gone)

        try:
            self._bind()
            self._fd = int(self._socket.getsockopt(zmq.FD))
        except BaseException:
            self._connections.close()
            raise

        self._loop.add_reader(self._fd, self._read)

    def _configure(self) -> None:
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        self._socket.setsockopt(zmq.SNDHWM, SEND_HIGH_WATER_MARK)
        self._socket.setsockopt(zmq.RCVHWM, RECEIVE_HIGH_WATER_MARK)
        # Without it a message to a dead or full peer is dropped in silence.
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)

    def _bind(self) -> None:
        previous = os.umask(0o077)

        try:
            self._socket.bind(f"ipc://{self._path}")
        finally:
            os.umask(previous)

    @property
    def endpoint(self) -> str:
        """The address that goes into the launch spec."""
        return f"ipc://{self._path}"

    def send(self, message: ToWorker) -> None:
        """Hand a message over, whole or not at all.

        Raises ChannelClosed when the worker is gone or never said Hello, ChannelFull when it does not take messages, Unsendable when the
        message is at fault.
        """
        if self._is_closed or self._peer is None:
            raise ChannelClosed("there is no worker at the other end")

        frame = encode_message(message)

        try:
            self._socket.send_multipart((self._peer, frame), zmq.DONTWAIT)
        except zmq.Again as error:
            raise ChannelFull("the worker does not take messages") from error
        except zmq.ZMQError as error:
            raise ChannelClosed(f"the worker cannot be reached: {error}") from error
        finally:
            # The descriptor signals edges, and sending, also in vain, may have eaten one: look again.
            self._loop.call_soon(self._read)

    async def wait_disconnected(self, timeout_s: float) -> None:
        """Wait until the worker's connection has ended, so that all it ever sent is here; at most timeout_s.

        The end of a process is told sooner than ZeroMQ's thread has read the process's last message, or even that it came at all.
        """
        if not self._is_closed:
            await self._connections.wait_all_gone(timeout_s)

    def drain(self) -> None:
        """Hand on everything that has already arrived. For a worker that ended: its last words come before the news of its end."""
        while self._read_burst():
            pass

    def close(self) -> None:
        """Stop listening and remove the address. What was not read is dropped. Safe to call twice."""
        if self._is_closed:
            return

        self._is_closed = True
        self._loop.remove_reader(self._fd)
        self._connections.close()
        self._remove_path()
        self._socket.close()

    def _read(self) -> None:
        if self._read_burst() and not self._is_closed:
            self._loop.call_soon(self._read)

    def _on_all_gone(self) -> None:
        # Its last words come before the news of its end.
        self.drain()

        # A stranger that came before the worker may have gone before it too.
        if self._peer is not None and not self._is_closed:
            self._on_disconnected()

    def _read_burst(self) -> bool:
        """Handle up to BURST messages; return whether more may be waiting."""
        for _ in range(BURST):
            if self._is_closed:
                return False

            # Asked first: on a channel that carries one token at a time, every second look finds nothing, and an exception costs more.
            if not int(self._socket.get(_EVENTS)) & _POLLIN:
                return False

            self._take(self._frames())

        return True

    def _frames(self) -> list[bytes]:
        """Read a message that is there. A frame always follows the one that names the sender, so only then is asked for more."""
        frames = [self._socket.recv(_DONTWAIT), self._socket.recv(_DONTWAIT)]

        while self._socket.get(_RCVMORE):
            frames.append(self._socket.recv(_DONTWAIT))

        return frames

    def _take(self, frames: list[bytes]) -> None:
        sender = frames[0]

        if self._peer is None:
            self._admit(sender, frames)
        elif sender == self._peer:
            self._hand_on(frames)

    def _admit(self, sender: bytes, frames: list[bytes]) -> None:
        """Before the Hello nobody is trusted, so whatever is not the right Hello is ignored, not answered by ending the worker."""
        try:
            message = decode_from_worker(frames[1]) if len(frames) == 2 else None
        except ProtocolError:
            return

        if not isinstance(message, Hello) or message.generation != self._generation:
            return

        if not hmac.compare_digest(message.secret, self._secret):
            return

        self._peer = sender
        # Nobody else can connect from here on; the connection that exists stays.
        self._remove_path()
        self._on_message(message)

    def _hand_on(self, frames: list[bytes]) -> None:
        try:
            if len(frames) != 2:
                raise ProtocolError(f"a message of {len(frames)} frames")

            message = decode_from_worker(frames[1])
        except ProtocolError as error:
            self.close()
            self._on_fault(error)
            return

        self._on_message(message)

    def _remove_path(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
