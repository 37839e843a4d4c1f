"""`prism serve` on the stand-in, which writes down what Python tells its audit hooks: connections, names looked up, files, programs.

AUDIT_LOG names the file, one event a line. What is native (ZeroMQ's own sockets) is not seen here.
"""

import os
import sys

from tests.serve_with_stand_in import main

_EVENTS = (
    "socket.connect",
    "socket.getaddrinfo",
    "socket.bind",
    "open",
    "subprocess.Popen",
    "pickle.find_class",
    "os.system",
)


def _listen_to(fd: int) -> None:
    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in _EVENTS:
            os.write(fd, f"{event} {arguments!r}\n".encode("utf-8", "backslashreplace"))

    sys.addaudithook(hook)


if __name__ == "__main__":
    _listen_to(os.open(os.environ["AUDIT_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    sys.exit(main())
