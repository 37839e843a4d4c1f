"""Whether anybody listens where the Ollama daemon should be. For `prism list`, which then need not load an HTTP client in vain."""

import socket
from urllib.parse import urlsplit


def somebody_listens(url: str, timeout_s: float) -> bool:
    """Try to connect. url: of `prism.ollama.address`, so with a port. Blocks for the time at most, for each address of the host."""
    parts = urlsplit(url)

    try:
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=timeout_s):
            return True
    except OSError:
        return False
