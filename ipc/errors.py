"""Errors of the channel.

IpcError
├── ProtocolError   bytes that are no message: the peer cannot be trusted any more
├── Unsendable      our own message cannot be put into bytes; nothing was sent
├── ChannelFull     the peer does not take messages; nothing was sent
└── ChannelClosed   the peer is gone; nothing was sent
"""


class IpcError(Exception):
    """Any fault of the channel."""


class ProtocolError(IpcError):
    """What came is not a message of this protocol. There is no resynchronising: end the peer."""


class Unsendable(IpcError):
    """The message holds what no message can (a lone surrogate, a number past 64 bits), or is too long. The peer is fine."""


class ChannelFull(IpcError):
    """The peer's queue is at its bound. The message was not sent, and never a part of it."""


class ChannelClosed(IpcError):
    """The peer is gone, or the channel was closed on this side."""
