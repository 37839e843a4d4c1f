"""What the kernel is told about connections, so that a peer that vanished without a word is noticed.

Called by `prism.http.listener`. A machine that lost its power or its network closes nothing: without these the kernel waits for two hours
of silence, or for about fifteen minutes of sends without an answer.
"""

import socket

# Silence before the first question whether the peer is there, between two, and how many may stay without an answer.
KEEPALIVE_IDLE_S = 15
KEEPALIVE_INTERVAL_S = 5
KEEPALIVE_COUNT = 3
# Above 1, so that the guard of `prism.http.send_guard`, which says why, ends a reader that stopped before the kernel does.
USER_TIMEOUT_SHARE = 7 / 6
_LONGEST_MS = 2**31 - 1


def watch_peer(listening: socket.socket, send_timeout_s: float) -> None:
    """Have the kernel end each connection that is accepted from here on when its peer vanishes.

    That is when it is silent, or acknowledges nothing for about send_timeout_s (0: the kernel's own time). A closed window counts too, also
    when the server is done with the connection and only the kernel still holds bytes for it. Accepted sockets inherit all of this (Linux).
    """
    user_timeout_ms = min(round(1000 * send_timeout_s * USER_TIMEOUT_SHARE), _LONGEST_MS)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_COUNT)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, user_timeout_ms)
