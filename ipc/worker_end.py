"""The worker's end of the channel: synchronous, one thread, used by `gpu_worker` only."""

import zmq

from ipc.codec import MAX_MESSAGE_BYTES, decode_to_worker, encode_message
from ipc.errors import ChannelClosed
from ipc.messages import FromWorker, ToWorker

# How long a send may wait for a front that does not read. The front reads all the time, so only a stopped front gets here.
SEND_TIMEOUT_MS = 60_000
# How long closing may take to hand over what was sent (the reason of a failed load must not be lost).
CLOSE_LINGER_MS = 2_000
# As plain numbers: arithmetic on enumerations is several microseconds for each token.
_EVENTS, _POLLIN, _DONTWAIT = int(zmq.EVENTS), int(zmq.POLLIN), int(zmq.DONTWAIT)


class WorkerEnd:
    """Connects to the endpoint that the front bound for this worker.

    lifeline_fd: read end of a pipe whose write end only the front holds; its end means that the front is gone.
    """

    def __init__(self, endpoint: str, lifeline_fd: int) -> None:
        self._lifeline_fd = lifeline_fd
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, CLOSE_LINGER_MS)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        self._socket.setsockopt(zmq.SNDTIMEO, SEND_TIMEOUT_MS)
        # A worker that lost its front must end, not look for another one at the same address.
        self._socket.setsockopt(zmq.RECONNECT_IVL, -1)
        self._socket.connect(endpoint)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(lifeline_fd, zmq.POLLIN)

    def send(self, message: FromWorker) -> None:
        """Hand a message over. Blocks up to SEND_TIMEOUT_MS when the front does not read; then raises ChannelClosed."""
        try:
            self._socket.send(encode_message(message))
        except zmq.Again as error:
            raise ChannelClosed("the front does not read any more") from error

    def receive(self, timeout_ms: int | None) -> ToWorker | None:
        """Return the next message, or None when none came in time. None waits for ever, 0 looks and returns.

        Raises ChannelClosed when the front is gone (noticed only while waiting), ProtocolError for bytes that are no message.
        """
        if timeout_ms != 0 and not self._wait(timeout_ms):
            return None

        # Asked first: between two tokens there is nearly always nothing, and an exception costs more than all else here.
        if not int(self._socket.get(_EVENTS)) & _POLLIN:
            return None

        return decode_to_worker(self._socket.recv(_DONTWAIT))

    def _wait(self, timeout_ms: int | None) -> bool:
        ready = dict(self._poller.poll(timeout_ms))

        if self._socket in ready:
            return True

        # Nothing is ever written to the lifeline after the launch spec: readable means its end.
        if self._lifeline_fd in ready:
            raise ChannelClosed("the front is gone")

        return False

    def close(self) -> None:
        """Hand over what was sent, for at most CLOSE_LINGER_MS, and close. Safe to call twice."""
        self._socket.close()
        self._context.term()
