"""How a command ends, as a number. The server's entry point returns these too."""

from enum import IntEnum


class ExitCode(IntEnum):
    """0, 1 and 2 as everywhere; 70, 75 and 78 as sysexits.h has them; 128 + SIGINT as shells have it."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    SOFTWARE = 70  # the server found a fault in itself
    TEMPORARY = 75  # try again later: the port is in use, for example
    CONFIGURATION = 78  # the machine's settings or installation must be changed first
    INTERRUPTED = 130
